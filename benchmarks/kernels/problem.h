// Problems of single kernels, written as strings: an op and its sizes, for instance
//
//   conv2d:n128c64h32oc64k3p1          a 3x3 convolution of 128 images of 64 channels, 32 x 32
//   conv2d_backward_weight:n8c96h7w9oc24k1s2/nchw
//   conv2d:n128c960h4oc960k3p1g960     a depthwise one
//   mm:m128n512k784tb1                 [128, 784] times the transpose of [512, 784]
//   linear_fused:m128n512k784gelu1     a linear layer from 784 to 512 with GELU
//   conv2d_fused:n128c64h32oc64k3p1add1 relu(conv2d(x) * scale + shift + y)
//   batch_norm_relu:n128c64h32add1     relu(batch_norm(x) + y)
//   max_pool2d_with_indices:n128c64h112k3s2p1
//   cross_entropy_loss:n128c10         of 128 samples and 10 classes
//   softmax:m128n1000                  of [m, n, k] along n, and so are the reductions:
//   sum:m64n4096
//
// Images are n, of c channels, h and w (else h), in channels_last unless /nchw follows; windows k
// or kh and kw, s or sh and sw, p or ph and pw, d or dh and dw. kinds.cpp and its neighbours list
// every op's sizes with what they are where absent; bench_kernels names them if one is wrong.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/kernels/kinds.h"
#include "runtime/op_registry.h"

namespace facula::kernels {

class Problem {
 public:
  /// Throws ValueError where the text is no problem.
  explicit Problem(const std::string& text);
  /// One of small and odd sizes, for comparing with the reference.
  static Problem random(const Kind& kind, Random& random);

  const Kind& kind() const { return *kind_; }
  /// 0 for a size that the kind does not have.
  std::int64_t operator[](const std::string& key) const;
  bool channels_last() const { return channels_last_; }
  std::string str() const;
  /// The largest error, relative to the largest value expected, that rounding explains.
  double most_error() const;

 private:
  explicit Problem(const Kind& kind) : kind_(&kind) {}
  /// Fills in what is absent.
  void complete();

  const Kind* kind_;
  Sizes values_;
  bool channels_last_ = true;
};

/// A call of the op; implementations run it into results of their own.
class Call {
 public:
  explicit Call(const Problem& problem);

  OpId id() const { return call_->op.id; }
  /// Gives the operands random elements; before that they have none that mean anything.
  void fill();
  /// Uninitialised results.
  std::vector<Tensor> results() const;
  /// Of all operands and results.
  std::size_t bytes() const;
  Refusal refuse(const Implementation& implementation) const;
  void run(const Implementation& implementation, std::span<Tensor> results) const;

 private:
  Operands operands_;
  std::vector<const Tensor*> pointers_;
  std::unique_ptr<facula::Call> call_;
  std::vector<Tensor> prototypes_;
};

}  // namespace facula::kernels
