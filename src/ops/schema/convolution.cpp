#include "ops/schema/convolution.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "ops/schema/channels.h"

namespace facula {
namespace {

/// The largest stride, padding and dilation: arithmetic on positions must not overflow.
constexpr std::int64_t kLargestStep = std::numeric_limits<std::int32_t>::max();

std::int64_t output_extent(const char* op, IntList input, std::int64_t size, std::int64_t kernel,
                           std::int64_t stride, std::int64_t padding, std::int64_t dilation) {
  std::int64_t span = 0, padded = 0;
  check<ShapeError>(!__builtin_mul_overflow(dilation, kernel - 1, &span) &&
                        !__builtin_add_overflow(span, 1, &span) &&
                        !__builtin_add_overflow(size, 2 * padding, &padded),
                    "{}: a kernel of {} with dilation {} or the input of size {} with padding {} "
                    "exceeds 2^63 positions; use smaller ones",
                    op, kernel, dilation, input, padding);
  check<ShapeError>(padded >= span,
                    "{}: the kernel spans {} positions, but the input of size {} has only {} with "
                    "padding {}; use a smaller kernel or more padding",
                    op, span, input, padded, padding);
  return (padded - span) / stride + 1;
}

}  // namespace

ConvShape conv_shape(const char* op, IntList input, IntList weight, const ConvWindow& window) {
  check<ShapeError>(
      input.size() == 4,
      "{}: input has size {}, expected [N, C, H, W]; add a batch dimension to a single "
      "image",
      op, input);
  check<ShapeError>(weight.size() == 4, "{}: weight has size {}, expected [out, in / groups, H, W]",
                    op, weight);
  const std::int64_t groups = window.groups;
  check<ValueError>(groups > 0, "{}: groups is {}, must be positive", op, groups);
  for (int d = 0; d < 2; ++d) {
    check<ValueError>(window.stride[d] > 0, "{}: stride is {}, must be positive", op,
                      window.stride);
    check<ValueError>(window.padding[d] >= 0, "{}: padding is {}, must not be negative", op,
                      window.padding);
    check<ValueError>(window.dilation[d] > 0, "{}: dilation is {}, must be positive", op,
                      window.dilation);
    check<ValueError>(
        std::max({window.stride[d], window.padding[d], window.dilation[d]}) <= kLargestStep,
        "{}: stride {}, padding {} and dilation {} must be less than 2^31", op, window.stride,
        window.padding, window.dilation);
    check<ShapeError>(weight[static_cast<std::size_t>(d) + 2] > 0,
                      "{}: weight has size {}, a kernel without elements", op, weight);
  }
  std::int64_t channels = 0;
  check<ShapeError>(!__builtin_mul_overflow(weight[1], groups, &channels),
                    "{}: weight {} with groups {} needs more than 2^63 channels", op, weight,
                    groups);
  check<ShapeError>(weight[0] % groups == 0 && input[1] == channels,
                    "{}: input {} has {} channels, but weight {} with groups {} needs {}, and a "
                    "multiple of groups as output channels",
                    op, input, input[1], weight, groups, channels);
  ConvShape s;
  s.n = input[0];
  s.c = input[1];
  s.h = input[2];
  s.w = input[3];
  s.oc = weight[0];
  s.kh = weight[2];
  s.kw = weight[3];
  s.stride_h = window.stride[0];
  s.stride_w = window.stride[1];
  s.pad_h = window.padding[0];
  s.pad_w = window.padding[1];
  s.dilation_h = window.dilation[0];
  s.dilation_w = window.dilation[1];
  s.groups = groups;
  s.oh = output_extent(op, input, s.h, s.kh, s.stride_h, s.pad_h, s.dilation_h);
  s.ow = output_extent(op, input, s.w, s.kw, s.stride_w, s.pad_w, s.dilation_w);
  return s;
}

void check_conv_dtypes(const char* op, const Tensor& a, const char* a_name, const Tensor& b,
                       const char* b_name) {
  check<DTypeError>(a.dtype() == b.dtype() && kFloatingTypes.contains(a.dtype()),
                    "{}: {} is {}, {} {}; both must be float32 or both float64; convert with to()",
                    op, a_name, name_of(a.dtype()), b_name, name_of(b.dtype()));
}

MemoryFormat conv_format(const Tensor& a, const Tensor& b) {
  return is_channels_last(a) || is_channels_last(b) ? kChannelsLast : kContiguous;
}

ConvShape infer_conv2d(Infer& c, const char* op, const ConvWindow& window) {
  const Tensor& input = c.in(0);
  const Tensor& weight = c.in(1);
  check_conv_dtypes(op, input, "input", weight, "weight");
  const ConvShape shape = conv_shape(op, input.sizes(), weight.sizes(), window);
  if (c.has(2)) {
    check<ShapeError>(c.in(2).sizes() == IntList(shape.oc),
                      "{}: bias has size {}, expected [{}], the output channels", op,
                      c.in(2).sizes(), shape.oc);
    check_conv_dtypes(op, input, "input", c.in(2), "bias");
  }
  c.out(input.dtype(), shape.output_sizes(), conv_format(input, weight));
  return shape;
}

void infer_conv2d_backward_input(Infer& c, const char* op, IntList input,
                                 const ConvWindow& window) {
  const Tensor& grad = c.in(0);
  const Tensor& weight = c.in(1);
  check_conv_dtypes(op, grad, "grad", weight, "weight");
  const ConvShape shape = conv_shape(op, input, weight.sizes(), window);
  check<ShapeError>(grad.sizes() == IntList(shape.output_sizes()),
                    "{}: grad has size {}, but the convolution of an input of size {} gives {}", op,
                    grad.sizes(), input, shape.output_sizes());
  c.out(grad.dtype(), input, conv_format(grad, weight));
}

}  // namespace facula
