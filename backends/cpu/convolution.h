// The convolution ops as one problem.
#pragma once

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/tensor_impl.h"
#include "ops/schema/convolution.h"
#include "runtime/op_registry.h"

namespace facula::cpu {

enum class ConvKind : std::uint8_t { forward, backward_input, backward_weight };

/// The ops whose implementations are written for all of them. conv2d_backward_input_fused is left
/// to Winograd, or else goes op by op.
inline constexpr OpId kConvolutions[] = {OpId::conv2d, OpId::conv2d_fused,
                                         OpId::conv2d_backward_input, OpId::conv2d_backward_weight};

ConvKind conv_kind(const KernelArgs& args);
/// The shape of the convolution that a call of conv2d or one of its gradients is about.
ConvShape conv_shape_of(const KernelArgs& args);
/// The call's result has no elements, or there is nothing to add up: it becomes bias or 0.
bool run_if_empty(const KernelArgs& args, const ConvShape& shape);
/// Why what follows in conv2d_fused cannot be applied to rows of a channels_last result; null for
/// the other ops.
Refusal refuse_epilogue(const KernelArgs& args);

/// Whether a 1x1 convolution, or a gradient of one, had better be a product with the matrix of
/// weights where it lies, or one that gives its gradient: of pixels as rows of channels, or of
/// images that lie in planes. Or a convolution of such images whose windows lie side by side: of
/// patches. Or one of few pixels, or a gradient of one: of windows that may overlap, written down.
enum class ByMatrix : std::uint8_t { no, pixels, planes, patches, windows };
/// Taps of such windows, at most.
inline constexpr std::int64_t kMostWindowTaps = 49;
ByMatrix by_matrix(const KernelArgs& args, const ConvShape& s);

/// Whether a depthwise convolution of images in planes, or the gradient of its input, goes line by
/// line: with stride 1, and lines that fill most of their vectors.
bool depthwise_by_planes(const KernelArgs& args, const ConvShape& s);

/// What conv2d_fused makes of a convolution's result, or conv2d_backward_input_fused of its; of the
/// other ops, nothing.
class ConvEpilogue {
 public:
  /// What lies like the result is brought into `format`, in which that is.
  ConvEpilogue(const KernelArgs& args, MemoryFormat format);

  /// Nothing for finish() to do: what follows a gradient is left to Winograd's transforms.
  bool empty() const { return !scale_.defined(); }
  /// Of a gradient: a sum, relu's gradient or both, by the residual and what relu gave.
  bool of_gradient() const { return of_gradient_; }
  const float* scale() const { return values(scale_); }
  const float* shift() const { return values(shift_); }
  const float* residual() const { return values(residual_); }
  const float* rectified() const { return values(rectified_); }
  bool relu() const { return relu_; }
  /// Upper bound after relu; NaN for none.
  float cap() const { return cap_; }
  /// Applies it to `count` pixels of a channels_last result, of which the first has number `first`.
  void finish(float* pixels, std::int64_t first, std::int64_t count) const;

 private:
  static const float* values(const Tensor& tensor) {
    return tensor.defined() ? tensor.impl()->typed<float>() : nullptr;
  }

  Tensor scale_, shift_, residual_, rectified_;
  bool of_gradient_ = false, relu_ = false;
  float cap_ = std::numeric_limits<float>::quiet_NaN();
};

/// parts[0] = sum of all parts of n elements each, joined pairwise in a fixed tree.
void sum_parts(float* parts, std::int64_t count, std::int64_t n);
void sum_parts(double* parts, std::int64_t count, std::int64_t n);

/// Whether the channels of images are planes, so that channels_last loops need copies.
inline bool are_planes(const Tensor& images) {
  return images.is_contiguous() && !images.is_contiguous(kChannelsLast);
}

/// Whether such images had better be the library's, which has them in channels_last slice by slice
/// within the caches, or a few of them go tap by tap: channels fill vectors there, and no lines are
/// padded.
inline bool better_in_channels_last(const ConvShape& s) {
  constexpr std::int64_t kVector = 16;
  return s.kh * s.kw > 1 && s.c % kVector == 0 && s.oc % kVector == 0;
}

/// Whether images that are copied with their padding would be little else.
inline bool mostly_padding(const ConvShape& s) {
  return s.pad_h > 8 * (s.h + s.kh) || s.pad_w > 8 * (s.w + s.kw);
}

}  // namespace facula::cpu
