// Shapes of two-dimensional convolutions, for rules and kernels.
#pragma once

#include <facula/tensor.h>

#include "ops/schema/op_def.h"

namespace facula {

/// A convolution of an input [n, c, h, w] with weights [oc, c / groups, kh, kw] to [n, oc, oh, ow].
struct ConvShape {
  std::int64_t n, c, h, w;
  std::int64_t oc, kh, kw;
  std::int64_t oh, ow;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  std::int64_t groups;

  Dims input_sizes() const { return {n, c, h, w}; }
  Dims weight_sizes() const { return {oc, c / groups, kh, kw}; }
  Dims output_sizes() const { return {n, oc, oh, ow}; }
  /// Products to add up for one image.
  std::int64_t multiplications_per_image() const { return oc * oh * ow * (c / groups) * kh * kw; }
};

/// The attributes that all convolution ops have.
struct ConvWindow {
  const Dims& stride;
  const Dims& padding;
  const Dims& dilation;
  std::int64_t groups;
};

/// Checks sizes and attributes; throws ShapeError and ValueError naming `op`.
ConvShape conv_shape(const char* op, IntList input, IntList weight, const ConvWindow& window);
/// Throws DTypeError unless both are float32 or both float64.
void check_conv_dtypes(const char* op, const Tensor& a, const char* a_name, const Tensor& b,
                       const char* b_name);
/// The layout of a convolution's result, as in PyTorch: channels_last if one of the inputs is.
MemoryFormat conv_format(const Tensor& a, const Tensor& b);

/// Checks and adds the result of a convolution of inputs 0 (input), 1 (weight) and 2 (bias, maybe
/// absent).
ConvShape infer_conv2d(Infer& c, const char* op, const ConvWindow& window);
/// Checks and adds the gradient of a convolution's input, of size `input`, from inputs 0 (grad) and
/// 1 (weight).
void infer_conv2d_backward_input(Infer& c, const char* op, IntList input, const ConvWindow& window);

}  // namespace facula
