#include "backends/cpu/convolution.h"

#include <algorithm>

#include "backends/cpu/kernels/batch_norm.h"
#include "backends/cpu/kernels/depthwise_planes.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "ops/attrs/conv2d.h"
#include "ops/attrs/conv2d_backward_input.h"
#include "ops/attrs/conv2d_backward_input_fused.h"
#include "ops/attrs/conv2d_backward_weight.h"
#include "ops/attrs/conv2d_fused.h"
#include "ops/schema/channels.h"

namespace facula::cpu {
namespace {

template <class A>
ConvShape shape_of(const A& a, IntList input, IntList weight) {
  return conv_shape("conv2d", input, weight, {a.stride, a.padding, a.dilation, a.groups});
}

template <class T>
void sum_parts_of(T* parts, std::int64_t count, std::int64_t n) {
  constexpr std::int64_t kSlice = 16384;
  base::parallel_for(base::divide_up(n, kSlice), [&](std::int64_t slice) {
    const std::int64_t begin = slice * kSlice, length = std::min(kSlice, n - begin);
    for (std::int64_t step = 1; step < count; step *= 2) {
      for (std::int64_t i = 0; i + step < count; i += 2 * step) {
        T* __restrict to = parts + i * n + begin;
        const T* __restrict from = parts + (i + step) * n + begin;
        for (std::int64_t k = 0; k < length; ++k) to[k] += from[k];
      }
    }
  });
}

}  // namespace

ConvKind conv_kind(const KernelArgs& args) {
  switch (args.call.op.id) {
    case OpId::conv2d:
    case OpId::conv2d_fused: return ConvKind::forward;
    case OpId::conv2d_backward_input:
    case OpId::conv2d_backward_input_fused: return ConvKind::backward_input;
    default: return ConvKind::backward_weight;
  }
}

ConvShape conv_shape_of(const KernelArgs& args) {
  switch (conv_kind(args)) {
    case ConvKind::forward:
      return args.call.op.id == OpId::conv2d
                 ? shape_of(args.attrs<ops::conv2d_attrs>(), args.in(0).sizes(), args.in(1).sizes())
                 : shape_of(args.attrs<ops::conv2d_fused_attrs>(), args.in(0).sizes(),
                            args.in(1).sizes());
    case ConvKind::backward_input: {
      const auto shape = [&](const auto& a) {
        return shape_of(a, a.input_size, args.in(1).sizes());
      };
      return args.call.op.id == OpId::conv2d_backward_input
                 ? shape(args.attrs<ops::conv2d_backward_input_attrs>())
                 : shape(args.attrs<ops::conv2d_backward_input_fused_attrs>());
    }
    default:
      return shape_of(args.attrs<ops::conv2d_backward_weight_attrs>(), args.in(1).sizes(),
                      args.out().sizes());
  }
}

bool run_if_empty(const KernelArgs& args, const ConvShape& shape) {
  const Tensor& out = args.out();
  if (out.numel() == 0) return true;
  if (shape.n * shape.c * shape.oc > 0) return false;
  out.zero_();
  if (args.has(2)) out.copy_(reshape(args.in(2), {1, shape.oc, 1, 1}));
  return true;
}

Refusal refuse_epilogue(const KernelArgs& args) {
  if (args.call.op.id != OpId::conv2d_fused) return nullptr;
  if (args.in(1).numel() == 0) return "no channels";
  // Results that are dense in both layouts count as what op by op takes them for.
  return is_channels_last(args.out()) ? nullptr : "the result is not channels_last";
}

namespace {

/// Pixels of an image in planes that are worth a product of their own.
constexpr std::int64_t kPlanePixels = 64;

bool windows_lie_side_by_side(const ConvShape& s) {
  return s.stride_h == s.kh && s.stride_w == s.kw && s.pad_h + s.pad_w == 0;
}

/// Whether the windows of planes are copied as patches, in which channels need not fill vectors.
bool better_by_patches(const KernelArgs& args, const ConvShape& s) {
  return conv_kind(args) == ConvKind::forward && windows_lie_side_by_side(s) &&
         s.dilation_h * s.dilation_w == 1 && s.oh * s.ow >= kPlanePixels &&
         are_planes(args.in(0)) && are_planes(args.out()) && !better_in_channels_last(s);
}

/// Whether windows written down are little beside the weights, which others pack.
bool better_by_windows(const ConvShape& s) {
  constexpr std::int64_t kMostWindows = 64, kFewestWeights = 1 << 18;
  const std::int64_t taps = s.kh * s.kw;
  return taps <= kMostWindowTaps && s.n * s.oh * s.ow <= kMostWindows &&
         s.c * s.oc * taps >= kFewestWeights;
}

}  // namespace

ByMatrix by_matrix(const KernelArgs& args, const ConvShape& s) {
  // Weights worth it. Pixels of all images: beyond, packed weights or blocks are faster.
  constexpr std::int64_t kFewestWeights = 16384, kMostPixels = 256, kMostSummed = 1024;
  if (args.in(0).dtype() != kFloat32 || s.groups != 1) return ByMatrix::no;
  if (s.kh * s.kw != 1 || !windows_lie_side_by_side(s)) {
    if (better_by_patches(args, s)) return ByMatrix::patches;
    return better_by_windows(s) ? ByMatrix::windows : ByMatrix::no;
  }
  if (s.h * s.w == 1) return ByMatrix::pixels;  // a linear layer
  if (s.c * s.oc < kFewestWeights) return ByMatrix::no;
  const std::int64_t pixels = s.n * s.h * s.w;
  if (conv_kind(args) == ConvKind::backward_weight) {
    const bool copies = s.n > 1 && (are_planes(args.in(0)) || are_planes(args.in(1)));
    return pixels <= kMostSummed && !copies ? ByMatrix::pixels : ByMatrix::no;
  }
  const bool planes = are_planes(args.in(0)) && are_planes(args.out());
  if (planes && s.h * s.w >= kPlanePixels) return ByMatrix::planes;
  return pixels <= kMostPixels ? ByMatrix::pixels : ByMatrix::no;
}

bool depthwise_by_planes(const KernelArgs& args, const ConvShape& s) {
  constexpr std::int64_t kVector = 16;
  const ConvKind kind = conv_kind(args);
  if (args.in(0).dtype() != kFloat32 || kind == ConvKind::backward_weight) return false;
  if (s.groups == 1 || s.groups != s.c || s.groups != s.oc) return false;
  if (!has_plane_loop(s.kh, s.kw)) return false;
  if (s.stride_h != 1 || s.stride_w != 1 || s.dilation_h != 1) return false;
  if (s.pad_h >= s.kh || s.pad_w > (s.kw - 1) * s.dilation_w || mostly_padding(s)) return false;
  const std::int64_t width = kind == ConvKind::forward ? s.ow : s.w;
  const bool filled = 5 * width >= 3 * base::divide_up(width, kVector) * kVector;
  return filled && are_planes(args.in(0)) && are_planes(args.out());
}

ConvEpilogue::ConvEpilogue(const KernelArgs& args, MemoryFormat format) {
  if (args.call.op.id == OpId::conv2d_backward_input_fused) {
    of_gradient_ = true;
    if (args.has(2)) residual_ = args.in(2).contiguous(format);
    if (args.has(3)) rectified_ = args.in(3).contiguous(format);
  }
  if (args.call.op.id != OpId::conv2d_fused) return;
  const auto& attrs = args.attrs<ops::conv2d_fused_attrs>();
  relu_ = attrs.relu;
  if (attrs.cap) cap_ = static_cast<float>(*attrs.cap);
  if (args.has(5)) residual_ = args.in(5).contiguous(format);
  if (args.has(3)) {
    scale_ = args.in(3).contiguous();
    shift_ = args.in(4).contiguous();
  } else if (relu_) {
    // This changes no bit: -0 becomes 0, as in relu.
    const Dims channels = {args.in(1).size(0)};
    scale_ = ones(channels);
    shift_ = zeros(channels);
  }
}

void ConvEpilogue::finish(float* pixels, std::int64_t first, std::int64_t count) const {
  if (empty()) return;
  const std::int64_t n = scale_.numel();
  const BatchNormLoops<float>& loops = batch_norm_kernels().f32;
  if (relu_) {
    const float* added = residual() ? residual() + first * n : nullptr;
    loops.affine_relu_rows(pixels, added, count, n, {scale(), shift(), cap()}, pixels);
  } else {
    loops.affine_rows(pixels, count, n, {scale(), shift()}, pixels);
  }
}

void sum_parts(float* parts, std::int64_t count, std::int64_t n) { sum_parts_of(parts, count, n); }
void sum_parts(double* parts, std::int64_t count, std::int64_t n) { sum_parts_of(parts, count, n); }

}  // namespace facula::cpu
