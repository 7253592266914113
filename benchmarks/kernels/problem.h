// Problems of single kernels, written as strings: an op and its sizes, for instance
//
//   conv2d:n128c64h32oc64k3p1          a 3x3 convolution of 128 images of 64 channels, 32 x 32
//   conv2d_backward_weight:n8c96h7w9oc24k1s2/nchw
//   mm:m128n512k784tb1                 [128, 784] times the transpose of [512, 784]
//   linear_fused:m128n512k784gelu1     a linear layer from 784 to 512 with GELU
//
// Convolutions: n images, c channels, h, w (else h), oc output channels, k or kh and kw (1), s or
// sh and sw (1), p or ph and pw (0), d or dh and dw (1), g groups (1), bias 0 or 1; images lie in
// channels_last unless /nchw follows. mm: m, n, k, ta and tb 1 for operands that are
// transposed views. Linear layers: m, n, k, bias 0 or 1 (1); gelu 1 for that activation in
// linear_fused, otherwise relu.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/op_registry.h"

namespace facula::kernels {

class Problem {
 public:
  /// Throws ValueError where the text is no problem.
  explicit Problem(const std::string& text);
  /// One of small and odd sizes, for comparing with the reference.
  static Problem random(std::string_view op, std::mt19937& generator);

  const std::string& op() const { return op_; }
  std::int64_t operator[](const std::string& key) const { return values_.at(key); }
  bool channels_last() const { return channels_last_; }
  std::string str() const;
  /// Multiplications and additions.
  double flops() const;

 private:
  Problem() = default;
  void complete();

  std::string op_;
  std::map<std::string, std::int64_t> values_;
  bool channels_last_ = true;
};

/// The ops that problems can be about.
const std::vector<std::string>& ops();

/// A call of the op; implementations run it into results of their own.
class Call {
 public:
  explicit Call(const Problem& problem);

  OpId id() const { return call_->op.id; }
  /// Gives the operands random elements; before that they have none that mean anything.
  void fill();
  /// An uninitialised result.
  Tensor result() const { return empty_like(prototype_); }
  Refusal refuse(const Implementation& implementation) const;
  void run(const Implementation& implementation, Tensor& result) const;

 private:
  std::vector<Tensor> inputs_;
  std::vector<const Tensor*> pointers_;
  std::shared_ptr<const void> attributes_;
  std::unique_ptr<facula::Call> call_;
  Tensor prototype_;
};

}  // namespace facula::kernels
