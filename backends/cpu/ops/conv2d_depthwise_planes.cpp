// Depthwise convolutions with stride 1 of images in planes, and the gradients of their inputs:
// lines that fill vectors need not become channels_last and back.
#include <algorithm>

#include "backends/cpu/convolution.h"
#include "backends/cpu/kernels/depthwise_planes.h"
#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Products worth a slice of their own, and elements of a band of lines that stay in the
/// first-level cache.
constexpr std::int64_t kSliceWork = 128 << 10, kBandElements = 6 << 10;
/// Elements that may be read behind a copy: a vector.
constexpr std::int64_t kSlack = 16;

/// A plane with its margins and what it is correlated with.
struct Correlation {
  std::int64_t h, w, out_h, out_w, above, before;
  std::int64_t size, column_step;  ///< of the kernel

  Correlation(const ConvShape& s, bool forward)
      : h(forward ? s.h : s.oh),
        w(forward ? s.w : s.ow),
        out_h(forward ? s.oh : s.h),
        out_w(forward ? s.ow : s.w),
        above(forward ? s.pad_h : s.kh - 1 - s.pad_h),
        before(forward ? s.pad_w : (s.kw - 1) * s.dilation_w - s.pad_w),
        size(s.kh),
        column_step(s.dilation_w) {}

  /// Of the copy of a line.
  std::int64_t stride() const { return out_w + (size - 1) * column_step; }
  std::int64_t lines_of_band() const {
    return std::clamp(kBandElements / stride() - (size - 1), size, std::max(size, out_h));
  }
};

/// The same lines from the last to the first, each with the taps from the last to the first: those
/// of the gradient of the input, in the order of the weights.
void turn(DepthwisePlane& p) {
  p.in += (p.lines + p.size - 2) * p.in_stride + (p.size - 1) * p.column_step;
  p.out += (p.lines - 1) * p.out_stride;
  p.in_stride = -p.in_stride;
  p.column_step = -p.column_step;
  p.out_stride = -p.out_stride;
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  const bool forward = conv_kind(args) == ConvKind::forward;
  const Correlation c(s, forward);
  const Tensor taps = args.in(1).contiguous();
  const Tensor bias = args.has(2) ? args.in(2).contiguous() : Tensor();
  const float* images = args.in(0).impl()->typed<float>();
  const float* start = bias.defined() ? bias.impl()->typed<float>() : nullptr;
  float* results = args.out().impl()->typed<float>();
  const std::int64_t lines = c.lines_of_band(), bands = base::divide_up(c.out_h, lines);
  const std::int64_t planes = s.n * s.c, stride = c.stride();
  const std::int64_t work = std::min(lines, c.out_h) * c.out_w * c.size * c.size;
  const std::int64_t together = std::max<std::int64_t>(1, kSliceWork / work);
  base::parallel_for(base::divide_up(planes, together) * bands, [&](std::int64_t slice) {
    const std::int64_t line = slice % bands * lines, count = std::min(lines, c.out_h - line);
    // The margins of all planes are the same zeros.
    const std::int64_t height = count + c.size - 1;
    const Scratch<float> copy(height * stride + kSlack);
    std::fill_n(copy.data(), height * stride + kSlack, 0.0f);
    const std::int64_t top = std::max<std::int64_t>(0, line - c.above);
    const std::int64_t bottom = std::min(c.h, line - c.above + height);
    const std::int64_t width = std::min(c.w, stride - c.before);
    const std::int64_t first = slice / bands * together;
    for (std::int64_t plane = first; plane < std::min(first + together, planes); ++plane) {
      const std::int64_t channel = plane % s.c;
      if (bottom > top) {
        gemm_loops<float>().copy(images + (plane * c.h + top) * c.w, c.w, bottom - top, width,
                                 copy.data() + (top - line + c.above) * stride + c.before, stride);
      }
      DepthwisePlane own = {.size = c.size,
                            .column_step = c.column_step,
                            .weights = taps.impl()->typed<float>() + channel * c.size * c.size,
                            .bias = start ? start[channel] : 0.0f,
                            .in = copy.data(),
                            .in_stride = stride,
                            .lines = count,
                            .width = c.out_w,
                            .out = results + (plane * c.out_h + line) * c.out_w,
                            .out_stride = c.out_w};
      if (!forward) turn(own);
      depthwise_planes_kernels().correlate(own);
    }
  });
}

Refusal refuse(const KernelArgs& args) {
  return depthwise_by_planes(args, conv_shape_of(args)) ? nullptr : "better in channels_last";
}

}  // namespace

void register_conv2d_depthwise_planes() {
  for (OpId op : {OpId::conv2d, OpId::conv2d_backward_input}) {
    add(op, {"depthwise by planes", refuse, run});
  }
}

}  // namespace facula::cpu
