// Convolutions on channels_last and the gradients of their inputs, tap by tap: a tap pairs pixels
// of the source with pixels of the result, and adds the product of the source's channels with a
// matrix of its own. Pairs with padding are left out, which matters for small images.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <facula/ops.h>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/kernels/pointwise.h"
#include "backends/cpu/ops/tap_meeting.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/weight_taps.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Elements of a slice's pixels, of source and result, which stay in the second-level cache while
/// all weights go by.
constexpr std::int64_t kSliceElements = 131072;
/// Slices to share out, at least, where there are so many lines.
constexpr std::int64_t kFewestSlices = 8;
/// Channels whose weights are packed at a time.
constexpr std::int64_t kPackedChannels = 64;
/// Below, the library packs weights that make up much of the work faster.
constexpr std::int64_t kFewestChannels = 128;

using base::divide_up;

const PointwiseKernels& kernels() { return pointwise_kernels(); }

/// The matrices [inputs, outputs] of all taps, packed one after the other.
class PackedTaps {
 public:
  PackedTaps(const Taps<const float>& taps, std::int64_t count, std::int64_t inputs,
             std::int64_t outputs)
      : inputs_(inputs), tap_size_(inputs * kernels().padded(outputs)), data_(count * tap_size_) {
    const std::int64_t blocks = divide_up(inputs, kPackedChannels);
    std::vector<std::int64_t> panels;
    for (std::int64_t k = 0; k < outputs; k += kernels().panel_columns(outputs - k)) {
      panels.push_back(k);
    }
    base::parallel_for(std::ssize(panels) * blocks, [&](std::int64_t slice) {
      const std::int64_t k = panels[static_cast<std::size_t>(slice / blocks)];
      const std::int64_t c = slice % blocks * kPackedChannels;
      pack(taps.from(c, k), count, c, std::min(kPackedChannels, inputs - c), k, outputs - k);
    });
  }

  const float* tap(std::int64_t number) const { return data_.data() + number * tap_size_; }

 private:
  /// Some channels of the panel that begins at an output, before which so many are left.
  void pack(const Taps<const float>& taps, std::int64_t count, std::int64_t channel,
            std::int64_t channels, std::int64_t output, std::int64_t left) const {
    const std::int64_t columns = kernels().panel_columns(left), outputs = std::min(columns, left);
    const Scratch<float> buffer(count * channels * outputs);
    const auto dense = gather_outputs(taps, count, channels, outputs, buffer.data());
    for (std::int64_t i = 0; i < count; ++i) {
      float* to = data_.data() + i * tap_size_ + inputs_ * output + channel * columns;
      if (outputs < columns) std::fill_n(to, channels * columns, 0.0f);
      gemm_loops<float>().copy(dense.data + i * dense.tap_stride, dense.channel_stride, channels,
                               outputs, to, columns);
    }
  }

  std::int64_t inputs_, tap_size_;
  Scratch<float> data_;
};

/// The sums over all taps, from one kind of images to the other.
class TapProducts {
 public:
  /// `taps` with the result's channels as outputs.
  TapProducts(const ConvShape& shape, bool forward, const float* source,
              const Taps<const float>& taps, float* result)
      : s_(shape),
        forward_(forward),
        source_(source),
        weights_(taps, shape.kh * shape.kw, inputs(), outputs()),
        result_(result) {}

  std::int64_t inputs() const { return forward_ ? s_.c : s_.oc; }
  std::int64_t outputs() const { return forward_ ? s_.oc : s_.c; }
  std::int64_t width() const { return forward_ ? s_.ow : s_.w; }
  std::int64_t lines() const { return s_.n * height(); }

  /// Adds them to the lines [first, last) of the result.
  void add(std::int64_t first, std::int64_t last) const {
    std::vector<std::int64_t> x_rows, out_rows;
    for (std::int64_t tap = 0; tap < s_.kh * s_.kw; ++tap) {
      const TapMeeting rows(tap / s_.kw, s_.dilation_h, s_.stride_h, s_.pad_h, s_.h, s_.oh);
      x_rows.clear();
      out_rows.clear();
      for (std::int64_t line = first; line < last; ++line) {
        const std::int64_t met = source_row(rows, line % height());
        if (met < 0) continue;
        add_pairs(tap % s_.kw, line / height() * source_height() + met, line, x_rows, out_rows);
      }
      kernels().add({.inputs = inputs(),
                     .outputs = outputs(),
                     .x = source_,
                     .packed_weights = weights_.tap(tap),
                     .out = result_,
                     .x_rows = x_rows,
                     .out_rows = out_rows});
    }
  }

 private:
  std::int64_t height() const { return forward_ ? s_.oh : s_.h; }
  std::int64_t source_height() const { return forward_ ? s_.h : s_.oh; }
  std::int64_t source_width() const { return forward_ ? s_.w : s_.ow; }

  /// What row y of the result meets, or -1.
  std::int64_t source_row(const TapMeeting& rows, std::int64_t y) const {
    if (!forward_) return rows.output(y);
    return rows.contains(y) ? rows.input(y) : -1;
  }

  /// The pixels of two lines that meet through a column of taps.
  void add_pairs(std::int64_t tap, std::int64_t source_line, std::int64_t line,
                 std::vector<std::int64_t>& x_rows, std::vector<std::int64_t>& out_rows) const {
    const TapMeeting columns(tap, s_.dilation_w, s_.stride_w, s_.pad_w, s_.w, s_.ow);
    for (std::int64_t i = columns.begin; i < columns.end; ++i) {
      const std::int64_t from = forward_ ? columns.input(i) : i,
                         to = forward_ ? i : columns.input(i);
      x_rows.push_back((source_line * source_width() + from) * inputs());
      out_rows.push_back((line * width() + to) * outputs());
    }
  }

  const ConvShape& s_;
  bool forward_;
  const float* source_;
  PackedTaps weights_;
  float* result_;
};

/// Every pixel of `count` begins as the bias, or 0.
void begin(const float* bias, std::int64_t count, std::int64_t channels, float* pixels) {
  if (!bias) return void(std::fill_n(pixels, count * channels, 0.0f));
  for (std::int64_t i = 0; i < count; ++i) std::copy_n(bias, channels, pixels + i * channels);
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  const bool forward = conv_kind(args) == ConvKind::forward;
  const Tensor source = args.in(0).detach().contiguous(kChannelsLast);
  const Tensor weight = with_taps(args.in(1).detach());
  const Tensor bias = args.has(2) ? args.in(2).detach().contiguous() : Tensor();
  const bool direct = args.out().is_contiguous(kChannelsLast);
  const Tensor out =
      direct ? args.out() : new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast);
  const ConvEpilogue epilogue(args, kChannelsLast);

  Taps<const float> taps = taps_of<const float>(weight);
  if (!forward) std::swap(taps.channel_stride, taps.output_stride);
  float* const result = out.impl()->typed<float>();
  const TapProducts products(s, forward, source.impl()->typed<float>(), taps, result);
  const float* start = bias.defined() ? bias.impl()->typed<float>() : nullptr;

  const std::int64_t lines = products.lines(), width = products.width();
  const std::int64_t outputs = products.outputs();
  const std::int64_t fitting = kSliceElements / ((products.inputs() + outputs) * width);
  const std::int64_t per_slice =
      std::clamp<std::int64_t>(fitting, 1, divide_up(lines, kFewestSlices));
  base::parallel_for(divide_up(lines, per_slice), [&](std::int64_t slice) {
    const std::int64_t first = slice * per_slice, last = std::min(first + per_slice, lines);
    const std::int64_t pixels = (last - first) * width;
    float* own = result + first * width * outputs;
    begin(start, pixels, outputs, own);
    products.add(first, last);
    epilogue.finish(own, first * width, pixels);
  });
  if (!direct) args.out().copy_(out);
}

/// The pairs of positions that taps bring together, along one dimension.
std::int64_t pairs(std::int64_t taps, std::int64_t dilation, std::int64_t stride,
                   std::int64_t padding, std::int64_t inputs, std::int64_t outputs) {
  std::int64_t sum = 0;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    sum += TapMeeting(tap, dilation, stride, padding, inputs, outputs).count();
  }
  return sum;
}

/// A quarter of the taps or more meets padding, some of which the library's kernels compute.
bool much_padding(const ConvShape& s) {
  const std::int64_t met = pairs(s.kh, s.dilation_h, s.stride_h, s.pad_h, s.h, s.oh) *
                           pairs(s.kw, s.dilation_w, s.stride_w, s.pad_w, s.w, s.ow);
  return 4 * met <= 3 * s.kh * s.oh * s.kw * s.ow;
}

Refusal refuse(const KernelArgs& args) {
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  if (s.groups != 1) return "groups";
  if (std::min(s.c, s.oc) < kFewestChannels) return "few channels";
  if (args.in(0).suggest_memory_format() != kChannelsLast) return "not channels_last";
  if (!much_padding(s)) return "little padding: the library's kernels are as fast";
  return refuse_epilogue(args);
}

}  // namespace

void register_conv2d_tap_products() {
  for (OpId op : {OpId::conv2d, OpId::conv2d_fused, OpId::conv2d_backward_input}) {
    add(op, {"tap by tap", refuse, run});
  }
}

}  // namespace facula::cpu
