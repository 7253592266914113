// Convolutions with stride 1 on contiguous tensors as products with shifted inputs.
//
// A pixel of the result is a product of the weights with the input around it. Numbering the pixels
// of the padded input through, line after line, every weight sees the input at a constant shift:
// the convolution is a matrix product whose right matrix has the shifted inputs as rows, without
// ever being written down. Results at the line ends, where a shift crosses into the next line, are
// thrown away. That wastes (kW - 1) / width of the work and spares all set-up and conversion, so it
// is the best there is for few channels and small images.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "ops/schema/channels.h"

namespace facula::cpu {
namespace {

/// Multiplications worth a slice of their own, about 2 microseconds.
constexpr std::int64_t kSliceWork = 128 << 10;
/// Images are cut into bands of lines to make this many slices, and where copies of more elements
/// would leave the second-level cache.
constexpr std::int64_t kWantedSlices = 8;
constexpr std::int64_t kBandElements = 256 << 10;
/// Partial sums of a weight gradient: how many, the multiplications that are worth one, and the
/// elements of padded images to keep at a time.
constexpr std::int64_t kMostChunks = 8;
constexpr std::int64_t kChunkWork = 512 << 10;
constexpr std::int64_t kCopiedElements = 64 << 10;

/// With one tap of so many channels, rows of a plane are worth what is packed and joined for them
/// from so many pixels on, in gradients of weights from more.
constexpr std::int64_t kManyChannels = 256, kFewestPixels = 64, kFewestSummed = 256;

/// Planes [channels, h, w] surrounded by zeros (or cropped where `top` or `left` are negative).
struct PaddedPlanes {
  std::int64_t channels, h, w;
  std::int64_t padded_h, padded_w, top, left;

  bool plain() const { return padded_h == h && padded_w == w; }
  std::int64_t numel() const { return channels * padded_h * padded_w; }
  /// `count` of the padded lines from number `line` on.
  PaddedPlanes lines(std::int64_t line, std::int64_t count) const {
    return {channels, h, w, count, padded_w, top - line, left};
  }
};

template <class T>
void pad(const GemmLoops<T>& loops, const PaddedPlanes& p, const T* from, T* to) {
  std::memset(to, 0, static_cast<std::size_t>(p.numel()) * sizeof(T));
  const std::int64_t first_row = std::max<std::int64_t>(0, -p.top);
  const std::int64_t first_column = std::max<std::int64_t>(0, -p.left);
  const std::int64_t rows = std::min(p.h, p.padded_h - p.top) - first_row;
  const std::int64_t columns = std::min(p.w, p.padded_w - p.left) - first_column;
  if (rows <= 0 || columns <= 0) return;
  for (std::int64_t c = 0; c < p.channels; ++c) {
    loops.copy(from + (c * p.h + first_row) * p.w + first_column, p.w, rows, columns,
               to + (c * p.padded_h + p.top + first_row) * p.padded_w + p.left + first_column,
               p.padded_w);
  }
}

/// Pads `count` lines from number `line` on of a batch of planes; those that nothing surrounds stay
/// where they are. Returns the first ones.
template <class T>
const T* padded_lines(const GemmLoops<T>& loops, const PaddedPlanes& p, std::int64_t line,
                      std::int64_t count, std::int64_t batch, const T* from, T* to) {
  if (p.plain()) return from + line * p.padded_w;
  const PaddedPlanes lines = p.lines(line, count);
  for (std::int64_t n = 0; n < batch; ++n) {
    pad(loops, lines, from + n * p.channels * p.h * p.w, to + n * lines.numel());
  }
  return to;
}

/// Shifts of the padded planes, one per (channel, row, column) of the kernel.
struct Shifts {
  const PaddedPlanes& planes;
  const ConvShape& s;

  void fill(std::int64_t* offsets, bool mirrored) const {
    for (std::int64_t c = 0; c < planes.channels; ++c) {
      for (std::int64_t i = 0; i < s.kh; ++i) {
        for (std::int64_t j = 0; j < s.kw; ++j) {
          const std::int64_t y = mirrored ? s.kh - 1 - i : i, x = mirrored ? s.kw - 1 - j : j;
          *offsets++ =
              (c * planes.padded_h + y * s.dilation_h) * planes.padded_w + x * s.dilation_w;
        }
      }
    }
  }
};

/// result[m] = bias[m] + sum over shifts k of weights[m][k] * padded planes shifted by k.
template <class T>
struct ShiftedProduct {
  const ConvShape& s;
  bool mirrored;
  PaddedPlanes planes;
  const T* packed_weights;
  std::int64_t m, out_h, out_w;
  const T* bias;
  const T* in;
  T* out;

  void run() const {
    const std::int64_t work = m * depth() * out_h * planes.padded_w;
    const std::int64_t wanted = std::max(kWantedSlices / s.n, out_h / fitting_lines());
    const std::int64_t bands =
        std::clamp<std::int64_t>(std::min(wanted, work / kSliceWork), 1, out_h);
    const std::int64_t lines = base::divide_up(out_h, bands);
    const std::int64_t together =
        std::max<std::int64_t>(1, kSliceWork / std::max<std::int64_t>(1, work));
    // Whole planes are read where they lie if nothing surrounds them.
    const PaddedPlanes band = planes.plain() ? planes : planes.lines(0, lines + reach());
    const Scratch<std::int64_t> offsets(depth());
    Shifts{band, s}.fill(offsets.data(), mirrored);
    base::parallel_for(base::divide_up(s.n, together) * bands, [&](std::int64_t slice) {
      const std::int64_t line = slice % bands * lines;
      const std::int64_t count = std::min(lines, out_h - line);
      if (count <= 0) return;
      const std::int64_t first = slice / bands * together;
      const Scratch<T> padded(planes.plain() ? 0 : band.numel());
      const Scratch<T> wide(direct() ? 0 : m * count * planes.padded_w);
      for (std::int64_t n = first; n < std::min(first + together, s.n); ++n) {
        const T* source =
            padded_lines(gemm_loops<T>(), planes, line, band.padded_h, 1,
                         in + n * planes.channels * planes.h * planes.w, padded.data());
        run_lines({source, 0, offsets.data()}, count, out + (n * m * out_h + line) * out_w,
                  wide.data());
      }
    });
  }

 private:
  std::int64_t depth() const { return planes.channels * s.kh * s.kw; }
  /// Lines of the planes beyond those of the result.
  std::int64_t reach() const { return planes.padded_h - out_h; }
  bool direct() const { return planes.padded_w == out_w; }
  /// Lines whose copies stay in the cache, at least as many as are copied twice.
  std::int64_t fitting_lines() const {
    const std::int64_t copied = (planes.plain() ? 0 : planes.channels) + (direct() ? 0 : m);
    const std::int64_t fitting =
        kBandElements / (std::max<std::int64_t>(1, copied) * planes.padded_w);
    return std::max({fitting - reach(), 2 * reach(), std::int64_t{1}});
  }

  void run_lines(const Rows<T>& shifted, std::int64_t count, T* result, T* wide) const {
    const GemmLoops<T>& loops = gemm_loops<T>();
    const std::int64_t width = planes.padded_w;
    loops.product({.m = m,
                   .n = (count - 1) * width + out_w,
                   .k = depth(),
                   .packed_a = packed_weights,
                   .b = shifted,
                   .c = direct() ? result : wide,
                   .c_stride = direct() ? out_h * out_w : count * width,
                   .row_bias = bias,
                   .column_bias = nullptr,
                   .accumulate = false});
    if (direct()) return;
    for (std::int64_t c = 0; c < m; ++c) {
      loops.copy(wide + c * count * width, width, count, out_w, result + c * out_h * out_w, out_w);
    }
  }
};

PaddedPlanes padded_input(const ConvShape& s) {
  return {s.c, s.h, s.w, s.h + 2 * s.pad_h, s.w + 2 * s.pad_w, s.pad_h, s.pad_w};
}

template <class T>
void forward(const KernelArgs& args, const ConvShape& s) {
  const GemmLoops<T>& loops = gemm_loops<T>();
  const Tensor x = args.in(0).contiguous(), weight = args.in(1).contiguous();
  const Tensor bias = args.has(2) ? args.in(2).contiguous() : Tensor();
  const std::int64_t depth = s.c * s.kh * s.kw;
  const Scratch<T> packed(loops.packed_size(s.oc, depth));
  loops.pack(weight.impl()->typed<T>(), depth, 1, s.oc, depth, packed.data());
  ShiftedProduct<T>{s,
                    false,
                    padded_input(s),
                    packed.data(),
                    s.oc,
                    s.oh,
                    s.ow,
                    bias.defined() ? bias.impl()->typed<T>() : nullptr,
                    x.impl()->typed<T>(),
                    args.out().impl()->typed<T>()}
      .run();
}

/// The gradient of the input is the convolution of the padded gradient with the mirrored kernel.
template <class T>
void gather_input_gradient(const KernelArgs& args, const ConvShape& s) {
  const GemmLoops<T>& loops = gemm_loops<T>();
  const Tensor grad = args.in(0).contiguous(), weight = args.in(1).contiguous();
  const std::int64_t above = (s.kh - 1) * s.dilation_h, before = (s.kw - 1) * s.dilation_w;
  const PaddedPlanes planes = {
      s.oc, s.oh, s.ow, s.h + above, s.w + before, above - s.pad_h, before - s.pad_w};
  // Weights as [input channel][output channel, row, column].
  const std::int64_t taps = s.kh * s.kw, depth = s.oc * taps;
  const T* w = weight.impl()->typed<T>();
  const Scratch<T> packed(loops.packed_size(s.c, depth));
  if (taps == 1) {
    loops.pack(w, 1, s.c, s.c, s.oc, packed.data());
  } else {
    const Scratch<T> turned(s.c * depth);
    for (std::int64_t o = 0; o < s.oc; ++o) {
      for (std::int64_t c = 0; c < s.c; ++c) {
        std::memcpy(turned.data() + (c * s.oc + o) * taps, w + (o * s.c + c) * taps,
                    static_cast<std::size_t>(taps) * sizeof(T));
      }
    }
    loops.pack(turned.data(), depth, 1, s.c, depth, packed.data());
  }
  ShiftedProduct<T>{s,   true, planes,  packed.data(),           s.c,
                    s.h, s.w,  nullptr, grad.impl()->typed<T>(), args.out().impl()->typed<T>()}
      .run();
}

/// The gradient's lines, spread to the width of the padded input with zeros between.
PaddedPlanes spread_gradient(const ConvShape& s) {
  return {s.oc, s.oh, s.ow, s.oh, s.w + 2 * s.pad_w, 0, 0};
}

/// The same the other way round: every tap of the kernel adds its share to the padded input's
/// gradient at its own shift. Less work where the result is larger than the gradient.
template <class T>
void scatter_input_gradient(const KernelArgs& args, const ConvShape& s) {
  const GemmLoops<T>& loops = gemm_loops<T>();
  const Tensor grad = args.in(0).contiguous(), weight = args.in(1).contiguous();
  const PaddedPlanes planes = padded_input(s), spread = spread_gradient(s);
  const std::int64_t taps = s.kh * s.kw, plane = planes.padded_h * planes.padded_w;
  const std::int64_t packed_size = loops.packed_size(s.c, s.oc);
  const Scratch<T> packed(taps * packed_size);
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    loops.pack(weight.impl()->typed<T>() + tap, taps, s.c * taps, s.c, s.oc,
               packed.data() + tap * packed_size);
  }
  const std::int64_t pixels = (s.oh - 1) * planes.padded_w + s.ow;
  const std::int64_t together =
      std::max<std::int64_t>(1, kSliceWork / (s.c * s.oc * taps * pixels));
  base::parallel_for(base::divide_up(s.n, together), [&](std::int64_t slice) {
    const Scratch<T> wide(spread.plain() ? 0 : spread.numel());
    const Scratch<T> padded(planes.plain() ? 0 : planes.numel());
    for (std::int64_t n = slice * together; n < std::min((slice + 1) * together, s.n); ++n) {
      const T* lines = grad.impl()->typed<T>() + n * s.oc * s.oh * s.ow;
      if (!spread.plain()) {
        pad(loops, spread, lines, wide.data());
        lines = wide.data();
      }
      T* out = args.out().impl()->typed<T>() + n * s.c * s.h * s.w;
      T* sums = planes.plain() ? out : padded.data();
      std::memset(sums, 0, static_cast<std::size_t>(planes.numel()) * sizeof(T));
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t shift =
            tap / s.kw * s.dilation_h * planes.padded_w + tap % s.kw * s.dilation_w;
        loops.product({.m = s.c,
                       .n = pixels,
                       .k = s.oc,
                       .packed_a = packed.data() + tap * packed_size,
                       .b = {lines, s.oh * planes.padded_w, nullptr},
                       .c = sums + shift,
                       .c_stride = plane,
                       .row_bias = nullptr,
                       .column_bias = nullptr,
                       .accumulate = true});
      }
      if (planes.plain()) continue;
      for (std::int64_t c = 0; c < s.c; ++c) {
        loops.copy(sums + c * plane + s.pad_h * planes.padded_w + s.pad_w, planes.padded_w, s.h,
                   s.w, out + c * s.h * s.w, s.w);
      }
    }
  });
}

template <class T>
void backward_input(const KernelArgs& args, const ConvShape& s) {
  // Scattering also loads and stores its sums once per tap.
  const std::int64_t gathered = s.h * (s.w + (s.kw - 1) * s.dilation_w);
  const std::int64_t scattered = s.oh * (s.w + 2 * s.pad_w);
  const bool scatter = scattered * (s.oc + 2) < gathered * s.oc;
  scatter ? scatter_input_gradient<T>(args, s) : gather_input_gradient<T>(args, s);
}

/// Dot products of the gradient, its lines spread to the input's width, with the shifted input.
/// Units of the work are images, or bands of lines of large ones.
template <class T>
class WeightGradient {
 public:
  WeightGradient(const ConvShape& shape, const T* gradients, const T* images)
      : s(shape),
        gradients_(gradients),
        images_(images),
        planes_(padded_input(s)),
        spread_(spread_gradient(s)),
        lines_(lines_of_unit()),
        bands_(base::divide_up(s.oh, lines_)),
        offsets_(depth()) {
    Shifts{planes_.plain() ? planes_ : planes_.lines(0, unit_height()), s}.fill(offsets_.data(),
                                                                                false);
  }

  std::int64_t numel() const { return s.oc * depth(); }
  std::int64_t units() const { return s.n * bands_; }
  std::int64_t parts() const {
    const std::int64_t work = s.n * numel() * s.oh * planes_.padded_w;
    const std::int64_t parts =
        std::clamp<std::int64_t>(work / kChunkWork, 1, std::min(units(), kMostChunks));
    return base::divide_up(units(), base::divide_up(units(), parts));
  }

  /// The sums of a part's units.
  void run(std::int64_t part, T* sums) const {
    const std::int64_t own = base::divide_up(units(), parts());
    const std::int64_t first = part * own, end = std::min(first + own, units());
    // Images whose copies are kept together, so that sums of lanes are joined once for all of them.
    const std::int64_t most =
        bands_ > 1
            ? 1
            : std::clamp<std::int64_t>(
                  kCopiedElements / std::max<std::int64_t>(1, copied_per_line() * s.oh), 1, own);
    const Scratch<T> padded(planes_.plain() ? 0 : most * planes_.lines(0, unit_height()).numel());
    const Scratch<T> wide(spread_.plain() ? 0 : most * spread_.lines(0, lines_).numel());
    for (std::int64_t unit = first; unit < end; unit += most) {
      add(unit, std::min(most, end - unit), unit > first, wide.data(), padded.data(), sums);
    }
  }

 private:
  std::int64_t depth() const { return s.c * s.kh * s.kw; }
  std::int64_t reach() const { return planes_.padded_h - s.oh; }
  /// Lines of the input that those of a unit meet.
  std::int64_t unit_height() const { return lines_ + reach(); }
  std::int64_t copied_per_line() const {
    return ((planes_.plain() ? 0 : planes_.channels) + (spread_.plain() ? 0 : spread_.channels)) *
           planes_.padded_w;
  }
  /// Whole images, unless their copies leave the cache, or they are fewer than the parts and the
  /// sums of all parts stay there.
  std::int64_t lines_of_unit() const {
    const std::int64_t copied = std::max<std::int64_t>(1, copied_per_line());
    const std::int64_t work = numel() * s.oh * planes_.padded_w;
    const bool share = numel() * kMostChunks <= kBandElements;
    const std::int64_t bands =
        std::max<std::int64_t>(1, share ? std::min(kMostChunks / s.n, work / kChunkWork) : 1);
    const std::int64_t lines =
        std::min(kBandElements / copied - reach(), base::divide_up(s.oh, bands));
    return std::min(s.oh, std::max({lines, 2 * reach(), std::int64_t{1}}));
  }

  void add(std::int64_t unit, std::int64_t count, bool accumulate, T* wide, T* padded,
           T* sums) const {
    const GemmLoops<T>& loops = gemm_loops<T>();
    const std::int64_t n = unit / bands_, line = unit % bands_ * lines_;
    const std::int64_t lines = std::min(lines_, s.oh - line);
    const T* gradients =
        padded_lines(loops, spread_, line, lines, count, gradients_ + n * s.oc * s.oh * s.ow, wide);
    const T* images = padded_lines(loops, planes_, line, unit_height(), count,
                                   images_ + n * s.c * s.h * s.w, padded);
    const std::int64_t height = spread_.plain() ? s.oh : lines;
    loops.dots(
        {.m = s.oc,
         .n = depth(),
         .k = (lines - 1) * planes_.padded_w + s.ow,
         .a = {gradients, height * planes_.padded_w, nullptr},
         .b = {images, 0, offsets_.data()},
         .batch = count,
         .a_step = spread_.lines(0, height).numel(),
         .b_step = planes_.plain() ? planes_.numel() : planes_.lines(0, unit_height()).numel(),
         .c = sums,
         .c_stride = depth(),
         .column_bias = nullptr,
         .accumulate = accumulate});
  }

  const ConvShape& s;
  const T *gradients_, *images_;
  PaddedPlanes planes_, spread_;
  std::int64_t lines_, bands_;  ///< lines of a unit, units of an image
  Scratch<std::int64_t> offsets_;
};

template <class T>
void backward_weight(const KernelArgs& args, const ConvShape& s) {
  const Tensor grad = args.in(0).contiguous(), x = args.in(1).contiguous();
  const WeightGradient<T> gradient(s, grad.impl()->typed<T>(), x.impl()->typed<T>());
  const std::int64_t parts = gradient.parts(), numel = gradient.numel();
  T* out = args.out().impl()->typed<T>();
  const Scratch<T> sums(parts > 1 ? parts * numel : 0);
  T* first = parts > 1 ? sums.data() : out;
  base::parallel_for(parts, [&](std::int64_t part) { gradient.run(part, first + part * numel); });
  if (parts == 1) return;
  sum_parts(sums.data(), parts, numel);
  std::memcpy(out, sums.data(), static_cast<std::size_t>(numel) * sizeof(T));
}

Refusal refuse(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (s.stride_h != 1 || s.stride_w != 1) return "stride is not 1";
  if (s.groups != 1) return "groups";
  if (!args.out().is_contiguous()) return "channels_last";
  // Dense in both layouts, but conv2d_fused, whose bits are the same, goes by what was asked for.
  if (conv_kind(args) == ConvKind::forward && is_channels_last(args.out())) return "channels_last";
  if (by_matrix(args, s) != ByMatrix::no) return "a product with the weights where they lie";
  if (mostly_padding(s)) return "far more padding than image";
  if (args.in(0).dtype() == kFloat64) return nullptr;
  if (better_in_channels_last(s)) return "whole vectors of channels";
  const bool of_weights = conv_kind(args) == ConvKind::backward_weight;
  if (of_weights && (args.in(0).suggest_memory_format() == kChannelsLast ||
                     args.in(1).suggest_memory_format() == kChannelsLast)) {
    return "channels_last";
  }
  if (s.kh * s.kw == 1 && std::min(s.c, s.oc) >= kManyChannels &&
      s.oh * s.ow < (of_weights ? kFewestSummed : kFewestPixels)) {
    return "small images of many channels";
  }
  if (20 * s.ow < 17 * (s.w + 2 * s.pad_w)) return "narrow images: much of the work would be waste";
  return nullptr;
}

template <class T>
void run_as(const KernelArgs& args, const ConvShape& shape) {
  switch (conv_kind(args)) {
    case ConvKind::forward: return forward<T>(args, shape);
    case ConvKind::backward_input: return backward_input<T>(args, shape);
    case ConvKind::backward_weight: return backward_weight<T>(args, shape);
  }
}

void run(const KernelArgs& args) {
  const ConvShape shape = conv_shape_of(args);
  if (run_if_empty(args, shape)) return;
  args.in(0).dtype() == kFloat64 ? run_as<double>(args, shape) : run_as<float>(args, shape);
}

}  // namespace

void register_conv2d_shifted() {
  for (OpId op : {OpId::conv2d, OpId::conv2d_backward_input, OpId::conv2d_backward_weight}) {
    add(op, {"shifted product", refuse, run});
  }
}

}  // namespace facula::cpu
