// 1x1 convolutions on channels_last: products of the pixels, which are rows of channels, with the
// matrix of weights. With strides, the pixels that take part are gathered first, except for
// gradients of weights, which others compute where the pixels lie.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <span>
#include <utility>

#include <facula/ops.h>

#include "backends/cpu/kernels/pointwise.h"
#include "backends/cpu/packed_taps.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/streaming.h"
#include "base/cpu_info.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Elements of a slice's pixels, which stay in the second-level cache while all weights go by; and
/// pixels of a slice.
constexpr std::int64_t kSliceElements = 32768, kFewestPixels = 48, kMostPixels = 512;
/// So many weights do not stay in the second-level cache, and are read too often where there are
/// but so few pixels; nor do so many sums of gradients.
constexpr std::int64_t kLargeWeights = 1 << 19, kFewPixels = 512, kManySums = 1 << 18;
/// With narrow vectors, so many sums are worth columns that are brought together.
constexpr std::int64_t kWorthPacking = 1 << 14;
/// A panel of narrow vectors with so many inputs is four times as large as the first-level cache:
/// "tap by tap" cuts it.
constexpr std::int64_t kDeep = 1024;
/// With fewer channels than this, nothing else has such blocks.
constexpr std::int64_t kFewestChannels = 48;
/// Tasks to share out, where there is so much to do.
constexpr std::int64_t kTasks = 8;
/// Elements of a chunk of rows, and rows, that stay in that cache while all sums go by.
constexpr std::int64_t kChunkElements = 32768, kFewestRows = 32;
/// Partial weight gradients: at most so many, and so many elements together, beyond two.
constexpr std::int64_t kMostParts = 16, kPartElements = 2 << 20;
/// Pixels and multiplications worth a part of their own.
constexpr std::int64_t kPartPixels = 512, kPartWork = 4 << 20;

using base::divide_up;

const PointwiseKernels& kernels() { return pointwise_kernels(); }

/// The weights as a matrix.
struct WeightMatrix {
  explicit WeightMatrix(const Tensor& weight)
      : data(weight.impl()->typed<float>()),
        output_stride(weight.strides()[0]),
        input_stride(weight.strides()[1]) {}

  float* data;
  std::int64_t output_stride, input_stride;
};

bool strided(const ConvShape& s) { return s.stride_h != 1 || s.stride_w != 1; }

/// Every stride-th pixel of the images.
Tensor meeting_pixels(const Tensor& images, const ConvShape& s) {
  return slice(slice(images, 2, 0, s.h, s.stride_h), 3, 0, s.w, s.stride_w);
}

/// Pixels of a slice, of which all are about as large.
std::int64_t pixels_at_a_time(const RowProduct& p) {
  const std::int64_t most = std::clamp(kSliceElements / p.inputs, kFewestPixels, kMostPixels);
  return divide_up(p.rows, divide_up(p.rows, most));
}

/// out[pixel] = x[pixel] * weights, and what follows a convolution. Where there are few slices of
/// pixels, panels of weights are shared out as well.
void multiply(const RowProduct& whole, std::span<const std::int64_t> panels,
              const ConvEpilogue& epilogue) {
  const std::int64_t per_slice = pixels_at_a_time(whole), count = std::ssize(panels);
  const std::int64_t slices = divide_up(whole.rows, per_slice);
  const std::int64_t parts = std::min(count, divide_up(kTasks, slices));
  const auto rows_of = [&](std::int64_t slice) {
    const std::int64_t first = slice * per_slice;
    RowProduct own = whole;
    own.rows = std::min(per_slice, whole.rows - first);
    own.x += first * whole.inputs;
    own.out += first * whole.outputs;
    return own;
  };
  const auto finish = [&](std::int64_t slice) {
    const RowProduct own = rows_of(slice);
    epilogue.finish(own.out, slice * per_slice, own.rows);
  };
  base::parallel_for(slices * parts, [&](std::int64_t task) {
    const std::int64_t slice = task / parts, part = task % parts;
    const auto output = [&](std::int64_t panel) {
      return panel < count ? panels[static_cast<std::size_t>(panel)] : whole.outputs;
    };
    RowProduct own = rows_of(slice);
    own.first_output = output(count * part / parts);
    own.end_output = output(count * (part + 1) / parts);
    kernels().multiply(own);
    if (parts == 1) finish(slice);
    if (own.stream) finish_streaming();
  });
  if (parts > 1 && !epilogue.empty()) base::parallel_for(slices, finish);
}

/// The same to every stride-th pixel of images, [n, c, h, w] in channels_last, and zeros to the
/// others: a line at a time while it is in the caches, so that everything is written once.
void multiply_apart(const RowProduct& whole, const ConvShape& s, const Tensor& images) {
  const std::int64_t per_slice = divide_up(pixels_at_a_time(whole), s.ow);
  const std::int64_t lines = s.n * s.oh, line = s.w * s.c;
  float* const out = images.impl()->typed<float>();
  const bool streams = worth_streaming(images.nbytes());
  const auto write = [&](const float* from, std::int64_t n, float* to) {
    if (streams) {
      stream(to, from, n * static_cast<std::int64_t>(sizeof(float)));
    } else {
      std::copy_n(from, n, to);
    }
    return to + n;
  };
  base::parallel_for(divide_up(lines, per_slice), [&](std::int64_t slice) {
    const std::int64_t first = slice * per_slice, end = std::min(first + per_slice, lines);
    const Scratch<float> rows((end - first) * s.ow * s.c), zeros(line);
    std::fill_n(zeros.data(), line, 0.0f);
    RowProduct own = whole;
    own.rows = (end - first) * s.ow;
    own.x += first * s.ow * whole.inputs;
    own.out = rows.data();
    kernels().multiply(own);
    const float* from = rows.data();
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t y = i % s.oh * s.stride_h;
      float* to = out + (i / s.oh * s.h + y) * line;
      for (std::int64_t x = 0; x < s.ow; ++x, from += s.c) {
        const std::int64_t next = x + 1 < s.ow ? s.stride_w : s.w - x * s.stride_w;
        to = write(zeros.data(), (next - 1) * s.c, write(from, s.c, to));
      }
      const std::int64_t next = i % s.oh + 1 < s.oh ? s.stride_h : s.h - y;
      for (std::int64_t k = 1; k < next; ++k) to = write(zeros.data(), line, to);
    }
    if (streams) finish_streaming();
  });
}

/// Forward, and the gradient of the input, whose channels are those of the other side.
void run_product(const KernelArgs& args, const ConvShape& s, bool forward) {
  const Tensor source = args.in(0).detach();
  const Tensor x =
      (forward && strided(s) ? meeting_pixels(source, s) : source).contiguous(kChannelsLast);
  const bool scatters = !forward && strided(s);
  const bool direct = args.out().is_contiguous(kChannelsLast);
  const Tensor out =
      direct ? args.out() : new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast);

  const std::int64_t inputs = forward ? s.c : s.oc, outputs = forward ? s.oc : s.c;
  const Tensor weight = with_taps(args.in(1).detach());
  Taps<const float> taps = taps_of<const float>(weight);
  if (!forward) std::swap(taps.channel_stride, taps.output_stride);
  const PackedTaps packed(taps, 1, inputs, outputs);
  const Tensor bias = args.has(2) ? args.in(2).detach().contiguous() : Tensor();
  const ConvEpilogue epilogue(args, kChannelsLast);
  float* to = out.impl()->typed<float>();
  const bool whole_lines = outputs % 16 == 0 && begins_line(to);
  const RowProduct product = {
      .rows = s.n * s.oh * s.ow,
      .inputs = inputs,
      .outputs = outputs,
      .first_output = 0,
      .end_output = outputs,
      .x = x.impl()->typed<float>(),
      .packed_weights = packed.tap(0),
      .bias = bias.defined() ? bias.impl()->typed<float>() : nullptr,
      .out = to,
      .stream = !scatters && whole_lines && epilogue.empty() && worth_streaming(out.nbytes())};
  scatters ? multiply_apart(product, s, out) : multiply(product, packed.panels(), epilogue);
  if (!direct) args.out().copy_(out);
}

/// [m, padded(n)]: the sums over the pixels of a[pixel][i] * b[pixel][j], in parts that depend on
/// the sizes alone.
Tensor correlate(const Tensor& a, const Tensor& b, std::int64_t pixels) {
  const std::int64_t m = a.size(1), n = b.size(1), size = m * kernels().padded(n);
  const std::int64_t by_memory = std::max<std::int64_t>(2, kPartElements / size);
  const std::int64_t by_work = std::min(pixels / kPartPixels, pixels * m * n / kPartWork);
  const std::int64_t wanted = std::clamp<std::int64_t>(std::min(by_memory, by_work), 1, kMostParts);
  const std::int64_t per_part = divide_up(pixels, wanted), parts = divide_up(pixels, per_part);
  Tensor result = new_tensor({parts, m, size / m}, kFloat32, kCPU);
  float* sums = result.impl()->typed<float>();
  const float* rows_a = a.impl()->typed<float>();
  const float* rows_b = b.impl()->typed<float>();
  const std::int64_t per_chunk = std::max(kFewestRows, kChunkElements / (m + n));
  base::parallel_for(parts, [&](std::int64_t part) {
    float* own = sums + part * size;
    std::fill_n(own, size, 0.0f);
    const std::int64_t end = std::min(pixels, (part + 1) * per_part);
    for (std::int64_t first = part * per_part; first < end; first += per_chunk) {
      const std::int64_t rows = std::min(per_chunk, end - first),
                         next = std::min(per_chunk, end - first - rows);
      const std::int64_t start[] = {0};
      kernels().correlate({.m = m,
                           .n = n,
                           .a = rows_a + first * m,
                           .b = rows_b + first * n,
                           .a_step = m,
                           .b_step = n,
                           .rows = rows,
                           .a_runs = start,
                           .b_runs = start,
                           .sums = own,
                           .sums_step = size / m,
                           .next_a = {rows_a + (first + rows) * m, m, next, m},
                           .next_b = {rows_b + (first + rows) * n, n, next, n}});
    }
  });
  sum_parts(sums, parts, size);
  return result;
}

/// Which side goes along the vectors: the one that fills them better, else the input.
bool outputs_fill_vectors_better(const ConvShape& s) {
  return kernels().padded(s.oc) * s.c < kernels().padded(s.c) * s.oc;
}

void run_weight_gradient(const KernelArgs& args, const ConvShape& s) {
  const Tensor gradient = args.in(0).detach().contiguous(kChannelsLast);
  const Tensor x = args.in(1).detach().contiguous(kChannelsLast);
  const std::int64_t pixels = s.n * s.oh * s.ow;
  const WeightMatrix w(args.out());
  const bool swapped = outputs_fill_vectors_better(s);
  const Tensor sums = swapped ? correlate(x, gradient, pixels) : correlate(gradient, x, pixels);
  const std::int64_t row = kernels().padded(swapped ? s.oc : s.c);
  const float* from = sums.impl()->typed<float>();
  constexpr std::int64_t kOutputs = 16;
  base::parallel_for(divide_up(s.oc, kOutputs), [&](std::int64_t slice) {
    for (std::int64_t k = slice * kOutputs; k < std::min((slice + 1) * kOutputs, s.oc); ++k) {
      for (std::int64_t c = 0; c < s.c; ++c) {
        w.data[k * w.output_stride + c * w.input_stride] =
            swapped ? from[c * row + k] : from[k * row + c];
      }
    }
  });
}

/// Whether "tap by tap", which goes through weights and their sums by blocks, is faster.
bool better_by_blocks(const ConvShape& s, bool weights) {
  const std::int64_t elements = s.c * s.oc, pixels = s.n * s.oh * s.ow;
  if (std::min(s.c, s.oc) < kFewestChannels) return false;
  const std::int64_t many = base::uses_avx512() ? kManySums : kWorthPacking;
  return weights ? elements >= many || pixels < 2 * kPartPixels
                 : elements >= kLargeWeights && pixels <= kFewPixels;
}

Refusal refuse(const KernelArgs& args) {
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  if (s.kh * s.kw != 1) return "more than one tap";
  if (s.groups != 1) return "groups";
  if (s.pad_h + s.pad_w != 0) return "padding";
  // Of images that lie in planes, a product with the other operand's rows needs no copy.
  const bool weights = conv_kind(args) == ConvKind::backward_weight;
  if (weights && strided(s)) return "strides, which others take without gathering pixels";
  if (better_by_blocks(s, weights)) return "few pixels or large weights";
  const bool forward = conv_kind(args) == ConvKind::forward;
  if (!weights && (forward ? s.c : s.oc) >= kDeep && !base::uses_avx512()) return "deep";
  const Tensor& first = weights ? args.in(1) : args.in(0);
  if (first.suggest_memory_format() != kChannelsLast && s.h * s.w > 1) return "not channels_last";
  return refuse_epilogue(args);
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  switch (conv_kind(args)) {
    case ConvKind::forward: return run_product(args, s, true);
    case ConvKind::backward_input: return run_product(args, s, false);
    case ConvKind::backward_weight: return run_weight_gradient(args, s);
  }
}

}  // namespace

void register_conv2d_pointwise() {
  for (OpId op : kConvolutions) {
    add(op, {"pointwise", refuse, run});
  }
}

}  // namespace facula::cpu
