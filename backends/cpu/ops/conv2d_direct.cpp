// Direct convolutions in register tiles, for few channels: where a library would pad 3 or 6
// channels to 16, or build a matrix of shifted inputs.
//
// Everything works on channels_last lines. A line of results is computed from the lines of the
// image that its windows touch: forward with vectors along the output channels; the gradient of the
// input with vectors along a window's columns and channels, added where the windows lie; the
// gradient of the weights with vectors along the output channels, summed in registers over lines of
// pixels. Contiguous images are turned into channels_last ones piece by piece, within the caches.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/kernels/direct_conv.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/streaming.h"
#include "backends/cpu/transpose.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Multiplications worth a slice of their own, about 2 microseconds.
constexpr std::int64_t kSliceWork = 128 << 10;
/// Images are cut into bands of lines only to make this many slices.
constexpr std::int64_t kWantedSlices = 8;
/// Partial sums of a weight gradient: how many, and the multiplications that are worth one.
constexpr std::int64_t kMostChunks = 8;
constexpr std::int64_t kChunkWork = 256 << 10;
/// Pixels whose products one sum takes: float32 loses digits in longer ones.
constexpr std::int64_t kMostSummands = 16 << 10;
/// Elements of a band of the gradient that are used again and again from the first-level cache.
constexpr std::int64_t kBandElements = 4 << 10;

using base::divide_up;

/// A batch of images in either layout, read as channels_last lines with zeros beside them.
class Images {
 public:
  Images(const Tensor& tensor, std::int64_t margin)
      : tensor_(tensor.contiguous(tensor.suggest_memory_format())),
        channels_last_(tensor_.is_contiguous(kChannelsLast)),
        margin_(margin),
        channels_(tensor.sizes()[1]),
        height_(tensor.sizes()[2]),
        width_(tensor.sizes()[3]) {}

  std::int64_t line() const { return (width_ + 2 * margin_) * channels_; }
  /// Elements that read() needs for so many lines.
  std::int64_t scratch(std::int64_t lines) const { return direct() ? 0 : lines * line(); }
  /// Lines [begin, end) of an image; those outside of it must not be asked for.
  const float* read(std::int64_t image, std::int64_t begin, std::int64_t end, float* to) const {
    const float* data = tensor_.impl()->typed<float>() + image * channels_ * height_ * width_;
    if (direct()) return data + begin * line();
    const std::int64_t edge = margin_ * channels_;
    float* out = to;
    for (std::int64_t y = begin; y < end; ++y, out += line()) {
      std::fill_n(out, edge, 0.0f);
      std::fill_n(out + line() - edge, edge, 0.0f);
      if (channels_last_) {
        std::copy_n(data + y * width_ * channels_, width_ * channels_, out + edge);
      } else {
        transpose_rows(data + y * width_, height_ * width_, channels_, width_, out + edge,
                       channels_);
      }
    }
    return to;
  }

 private:
  bool direct() const { return channels_last_ && margin_ == 0; }

  Tensor tensor_;
  bool channels_last_;
  std::int64_t margin_, channels_, height_, width_;
};

/// A result in either layout, written line by line.
class Target {
 public:
  explicit Target(const Tensor& out)
      : data_(out.impl()->typed<float>()),
        channels_last_(out.is_contiguous(kChannelsLast)),
        channels_(out.sizes()[1]),
        height_(out.sizes()[2]),
        width_(out.sizes()[3]) {}

  bool channels_last() const { return channels_last_; }
  std::int64_t line() const { return width_ * channels_; }
  /// The place of a line of a channels_last result.
  float* at(std::int64_t image, std::int64_t y) const {
    return data_ + (image * height_ + y) * line();
  }
  void write(std::int64_t image, std::int64_t y, const float* line) const {
    if (channels_last_) {
      std::copy_n(line, this->line(), at(image, y));
    } else {
      transpose_rows(line, channels_, width_, channels_,
                     data_ + (image * channels_ * height_ + y) * width_, height_ * width_);
    }
  }

 private:
  float* data_;
  bool channels_last_;
  std::int64_t channels_, height_, width_;
};

// Not inlined: among many nested loops, the innermost would keep its counter in memory.
[[gnu::noinline]] void gather(const float* from, const std::int64_t* offsets, std::int64_t n,
                              float* __restrict to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[offsets[i]];
}
[[gnu::noinline]] void copy_strided(const float* from, std::int64_t from_step, std::int64_t n,
                                    float* __restrict to, std::int64_t to_step) {
  for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}

/// Weights in panels: rows of the matrix are (kernel row, a, b), its lanes (d, e), and an element
/// is source[offset(kernel row, a, b, d, e)] with an offset that is linear in all of them.
struct PackedWeights {
  struct Axis {
    std::int64_t size, stride;
  };

  PackedWeights(PanelWidth panel_width, const float* source, Axis kernel_row, Axis a, Axis b,
                Axis d, Axis e)
      : lanes(d.size * e.size),
        columns(padded_lanes(panel_width, lanes)),
        depth(kernel_row.size * a.size * b.size),
        data(depth * columns) {
    for (std::int64_t first = 0; first < lanes;) {
      const std::int64_t width = panel_width(lanes - first);
      const std::int64_t used = std::min(width, lanes - first);
      const Scratch<std::int64_t> offsets(used);
      for (std::int64_t l = 0; l < used; ++l) {
        offsets[l] = (first + l) / e.size * d.stride + (first + l) % e.size * e.stride;
      }
      float* to = data.data() + first * depth;
      std::fill_n(to, used < width ? depth * width : 0, 0.0f);
      for (std::int64_t i = 0; i < kernel_row.size; ++i) {
        for (std::int64_t j = 0; j < a.size; ++j) {
          for (std::int64_t k = 0; k < b.size; ++k, to += width) {
            const float* from = source + i * kernel_row.stride + j * a.stride + k * b.stride;
            gather(from, offsets.data(), used, to);
          }
        }
      }
      first += width;
    }
  }
  WeightPanels panels() const { return {data.data(), depth, lanes}; }

  std::int64_t lanes, columns, depth;
  Scratch<float> data;
};

/// Slices of images, or of bands of lines where there are few images.
struct Cut {
  std::int64_t images, count, bands, lines, together;

  Cut(std::int64_t images, std::int64_t lines_of_image, std::int64_t work_of_image)
      : images(images), count(lines_of_image) {
    bands = std::clamp<std::int64_t>(std::min(kWantedSlices / images, work_of_image / kSliceWork),
                                     1, lines_of_image);
    lines = divide_up(lines_of_image, bands);
    together = std::max<std::int64_t>(1, kSliceWork / std::max<std::int64_t>(1, work_of_image));
  }
  /// Calls body(first image, last image, first line, last line).
  template <class Body>
  void run(Body body) const {
    base::parallel_for(divide_up(images, together) * bands, [&](std::int64_t slice) {
      const std::int64_t first = slice / bands * together, line = slice % bands * lines;
      if (line >= count) return;
      body(first, std::min(first + together, images), line, std::min(line + lines, count));
    });
  }
};

/// Pieces of the image that make up a line of results, and the rows of the weights that they meet.
struct Segments {
  explicit Segments(std::int64_t most) : offsets(most), first_row(most) {}
  void add(std::int64_t offset, std::int64_t row) {
    offsets[count] = offset;
    first_row[count++] = row;
  }
  Scratch<std::int64_t> offsets, first_row;
  std::int64_t count = 0;
};

class Forward {
 public:
  Forward(const KernelArgs& args, const ConvShape& shape)
      : s(shape),
        x_(args.in(0), s.pad_w),
        out_(args.out()),
        epilogue_(args, kChannelsLast),
        weights_(loops_.stored_panel, args.in(1).impl()->typed<float>(),
                 {s.kh, args.in(1).strides()[2]}, {s.kw, args.in(1).strides()[3]},
                 {s.c, args.in(1).strides()[1]}, {1, 0}, {s.oc, args.in(1).strides()[0]}),
        taps_(s.dilation_w == 1 ? 1 : s.kw),
        run_(s.kw * s.c / taps_),
        bias_(weights_.columns),
        pairs_(s.oc <= loops_.pair_lanes && s.stride_h == 1 && s.dilation_h == 1 && taps_ == 1),
        stream_(streams(args)),
        segments_(s.kh * taps_) {
    std::fill_n(bias_.data(), weights_.columns, 0.0f);
    if (args.has(2)) {
      std::copy_n(args.in(2).contiguous().impl()->typed<float>(), s.oc, bias_.data());
    }
    for (std::int64_t i = 0; i < s.kh; ++i) {
      for (std::int64_t j = 0; j < taps_; ++j) {
        segments_.add(i * s.dilation_h * x_.line() + j * s.dilation_w * s.c, (i * s.kw + j) * s.c);
      }
    }
  }

  void run() const {
    const Cut cut(s.n, s.oh, s.multiplications_per_image());
    cut.run([&](std::int64_t first, std::int64_t last, std::int64_t line, std::int64_t end) {
      const std::int64_t top = std::max<std::int64_t>(0, first_row(line));
      const std::int64_t bottom = std::min(s.h, first_row(end - 1) + (s.kh - 1) * s.dilation_h + 1);
      const Scratch<float> copy(x_.scratch(std::max<std::int64_t>(0, bottom - top)));
      const Scratch<float> wide(out_.channels_last() ? 0 : 2 * out_.line());
      for (std::int64_t n = first; n < last; ++n) {
        const float* lines = x_.read(n, top, bottom, copy.data());
        for (std::int64_t y = line; y < end;) {
          const std::int64_t count = pairs_ && y + 1 < end ? 2 : 1;
          float* to = out_.channels_last() ? out_.at(n, y) : wide.data();
          count == 2 ? pair(lines, top, y, to) : single(lines, top, y, to);
          epilogue_.finish(to, (n * s.oh + y) * s.ow, count * s.ow);
          for (std::int64_t i = 0; i < count && !out_.channels_last(); ++i) {
            out_.write(n, y + i, to + i * out_.line());
          }
          y += count;
        }
      }
      if (stream_) finish_streaming();
    });
  }

 private:
  /// Whether images and results do not fit the caches together, and results are whole lines of
  /// them.
  bool streams(const KernelArgs& args) const {
    return out_.channels_last() && epilogue_.empty() && s.oc % 16 == 0 &&
           begins_line(out_.at(0, 0)) && worth_streaming(args.in(0).nbytes() + args.out().nbytes());
  }
  /// The image's line that the kernel's first row meets, maybe outside.
  std::int64_t first_row(std::int64_t y) const { return y * s.stride_h - s.pad_h; }

  /// The kernel's rows that lie within the image.
  struct Rows {
    std::int64_t begin, end;
  };
  Rows rows_within(std::int64_t y) const {
    Rows rows{0, s.kh};
    while (rows.begin < s.kh && first_row(y) + rows.begin * s.dilation_h < 0) ++rows.begin;
    while (rows.end > rows.begin && first_row(y) + (rows.end - 1) * s.dilation_h >= s.h) --rows.end;
    return rows;
  }

  void single(const float* lines, std::int64_t top, std::int64_t y, float* to) const {
    const Rows rows = rows_within(y);
    loops_.store_line({.weights = weights_.panels(),
                       .pixels = s.ow,
                       .step = s.stride_w * s.c,
                       .segments = (rows.end - rows.begin) * taps_,
                       .run = run_,
                       .input = lines,
                       .shift = (first_row(y) - top) * x_.line(),
                       .offsets = segments_.offsets.data() + rows.begin * taps_,
                       .first_row = segments_.first_row.data() + rows.begin * taps_,
                       .bias = bias_.data(),
                       .out = to,
                       .out_step = s.oc,
                       .stream = stream_});
  }

  void pair(const float* lines, std::int64_t top, std::int64_t y, float* to) const {
    const Rows rows = rows_within(y), next = rows_within(y + 1);
    loops_.store_pair({.weights = weights_.panels(),
                       .pixels = s.ow,
                       .step = s.stride_w * s.c,
                       .run = run_,
                       .input = lines,
                       .shift = (first_row(y) - top) * x_.line(),
                       .row_step = x_.line(),
                       .first = rows.begin,
                       .end = rows.end,
                       .next_first = next.begin + 1,
                       .next_end = next.end + 1,
                       .bias = bias_.data(),
                       .out = to,
                       .next_out = to + out_.line(),
                       .out_step = s.oc});
  }

  const ConvShape& s;
  const DirectConvLoops& loops_ = direct_conv_kernels();
  Images x_;
  Target out_;
  ConvEpilogue epilogue_;
  PackedWeights weights_;
  std::int64_t taps_;  ///< pieces of a row of the kernel that lie apart in the image
  std::int64_t run_;   ///< elements of such a piece
  Scratch<float> bias_;
  bool pairs_, stream_;
  Segments segments_;
};

/// A line of the input's gradient gets its share from every row of the kernel and the line of the
/// gradient below it; the results of one pixel are those of all columns of its window.
void backward_input(const KernelArgs& args, const ConvShape& s) {
  const Images grad(args.in(0), 0);
  const IntList strides = args.in(1).strides();
  const Target out(args.out());
  const DirectConvLoops& loops = direct_conv_kernels();
  const PackedWeights weights(loops.panel, args.in(1).impl()->typed<float>(), {s.kh, strides[2]},
                              {1, 0}, {s.oc, strides[0]}, {s.kw, strides[3]}, {s.c, strides[1]});
  const std::int64_t edge = s.pad_w * s.c;
  const std::int64_t line_size =
      std::max((s.ow - 1) * s.stride_w * s.c + weights.columns, edge + s.w * s.c);
  const Cut cut(s.n, s.h, s.multiplications_per_image());
  cut.run([&](std::int64_t first, std::int64_t last, std::int64_t line, std::int64_t end) {
    const std::int64_t reach = (s.kh - 1) * s.dilation_h;
    const std::int64_t top =
        std::clamp<std::int64_t>((line + s.pad_h - reach) / s.stride_h, 0, s.oh);
    const std::int64_t bottom = std::clamp((end - 1 + s.pad_h) / s.stride_h + 1, top, s.oh);
    const Scratch<float> copy(grad.scratch(bottom - top));
    const Scratch<float> sums(line_size);
    Segments segments(s.kh);
    for (std::int64_t n = first; n < last; ++n) {
      const float* lines = grad.read(n, top, bottom, copy.data());
      for (std::int64_t y = line; y < end; ++y) {
        segments.count = 0;
        for (std::int64_t i = 0; i < s.kh; ++i) {
          const std::int64_t from = y + s.pad_h - i * s.dilation_h;
          if (from < 0 || from % s.stride_h != 0 || from / s.stride_h >= s.oh) continue;
          segments.add((from / s.stride_h - top) * grad.line(), i * s.oc);
        }
        std::fill_n(sums.data(), line_size, 0.0f);
        loops.add_line({.weights = weights.panels(),
                        .pixels = s.ow,
                        .step = s.oc,
                        .segments = segments.count,
                        .run = s.oc,
                        .input = lines,
                        .shift = 0,
                        .offsets = segments.offsets.data(),
                        .first_row = segments.first_row.data(),
                        .bias = nullptr,
                        .out = sums.data(),
                        .out_step = s.stride_w * s.c});
        out.write(n, y, sums.data() + edge);
      }
    }
  });
}

/// Sums of the weights' gradient over some images. Those of a kernel row, or of a single tap where
/// the taps lie apart, make a block: a matrix of the window's elements and the output channels, of
/// which the lanes are the side that fills vectors better.
class WeightSums {
 public:
  WeightSums(const ConvShape& shape, const Images& grad, const Images& x)
      : s(shape),
        grad_(grad),
        x_(x),
        taps_(s.dilation_w == 1 ? 1 : s.kw),
        run_(s.kw * s.c / taps_) {
    const PanelWidth panel = direct_conv_kernels().panel;
    const std::int64_t channels = padded_lanes(panel, s.oc), window = padded_lanes(panel, run_);
    along_window_ = s.oc * window < run_ * channels;
    lanes_ = along_window_ ? window : channels;
    block_ = along_window_ ? s.oc * window : run_ * channels;
  }

  std::int64_t numel() const { return s.kh * taps_ * block_; }

  void run(std::int64_t first, std::int64_t last, float* sums) const {
    const Scratch<float> latest(numel());
    std::fill_n(sums, numel(), 0.0f);
    std::fill_n(latest.data(), numel(), 0.0f);
    const auto pass_on = [&] {
      for (std::int64_t i = 0; i < numel(); ++i) sums[i] += std::exchange(latest.data()[i], 0.0f);
    };
    const Scratch<float> grad_copy(grad_.scratch(s.oh)), x_copy(x_.scratch(s.h));
    const std::int64_t band = std::max<std::int64_t>(1, kBandElements / grad_.line());
    std::int64_t summands = 0;
    for (std::int64_t n = first; n < last; ++n) {
      const float* grad_lines = grad_.read(n, 0, s.oh, grad_copy.data());
      const float* x_lines = x_.read(n, 0, s.h, x_copy.data());
      for (std::int64_t y = 0; y < s.oh; y += band) {
        const std::int64_t end = std::min(y + band, s.oh);
        run_band(grad_lines, x_lines, y, end, latest.data());
        summands += (end - y) * s.ow;
        if (summands < kMostSummands) continue;
        pass_on();
        summands = 0;
      }
    }
    pass_on();
  }

  void write(const float* sums, float* out, IntList strides) const {
    for (std::int64_t block = 0; block < s.kh * taps_; ++block, sums += block_) {
      for (std::int64_t e = 0; e < run_; ++e) {
        const std::int64_t column = block % taps_ + e / s.c;
        float* to = out + block / taps_ * strides[2] + column * strides[3] + e % s.c * strides[1];
        const float* from = sums + (along_window_ ? e : e * lanes_);
        copy_strided(from, along_window_ ? lanes_ : 1, s.oc, to, strides[0]);
      }
    }
  }

 private:
  void run_band(const float* grad_lines, const float* x_lines, std::int64_t begin, std::int64_t end,
                float* sums) const {
    for (std::int64_t i = 0; i < s.kh; ++i) {
      // The lines y whose input line y * stride + above lies within the image.
      const std::int64_t above = i * s.dilation_h - s.pad_h;
      const std::int64_t first = std::max(begin, above < 0 ? divide_up(-above, s.stride_h) : 0);
      const std::int64_t last = above < s.h ? std::min(end, (s.h - 1 - above) / s.stride_h + 1) : 0;
      if (first >= last) continue;
      for (std::int64_t j = 0; j < taps_; ++j) {
        add(x_lines + (first * s.stride_h + above) * x_.line() + j * s.dilation_w * s.c,
            grad_lines + first * grad_.line(), last - first, sums + (i * taps_ + j) * block_);
      }
    }
  }

  void add(const float* x, const float* grad, std::int64_t rows, float* sums) const {
    OuterSums outer{.scalars = x,
                    .row_step = s.stride_h * x_.line(),
                    .step = s.stride_w * s.c,
                    .vectors = grad,
                    .vector_row_step = grad_.line(),
                    .vector_step = s.oc,
                    .rows = rows,
                    .pixels = s.ow,
                    .elements = run_,
                    .lanes = s.oc,
                    .sums = sums};
    if (along_window_) {
      std::swap(outer.scalars, outer.vectors);
      std::swap(outer.row_step, outer.vector_row_step);
      std::swap(outer.step, outer.vector_step);
      std::swap(outer.elements, outer.lanes);
    }
    direct_conv_kernels().add_outer(outer);
  }

  const ConvShape& s;
  const Images& grad_;
  const Images& x_;
  std::int64_t taps_, run_;
  bool along_window_;
  std::int64_t lanes_, block_;
};

void backward_weight(const KernelArgs& args, const ConvShape& s) {
  const Images grad(args.in(0), 0), x(args.in(1), s.pad_w);
  const WeightSums sums(s, grad, x);
  const std::int64_t chunks = std::clamp<std::int64_t>(
      s.n * s.multiplications_per_image() / kChunkWork, 1, std::min(s.n, kMostChunks));
  const std::int64_t images = divide_up(s.n, chunks), parts = divide_up(s.n, images);
  const Scratch<float> partial(parts * sums.numel());
  base::parallel_for(parts, [&](std::int64_t part) {
    sums.run(part * images, std::min((part + 1) * images, s.n),
             partial.data() + part * sums.numel());
  });
  sum_parts(partial.data(), parts, sums.numel());
  sums.write(partial.data(), args.out().impl()->typed<float>(), args.out().strides());
}

/// Whole vectors of channels and weights beyond the caches are the library's.
constexpr std::int64_t kVectorChannels = 16;
constexpr std::int64_t kMostWeightPlanes = 64 * 64;

Refusal refuse(const KernelArgs& args) {
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  if (s.groups != 1) return "groups";
  if (s.kh * s.kw == 1) return "a matrix product";
  const bool channels_last = args.in(0).suggest_memory_format() == kChannelsLast;
  const bool whole = s.c % kVectorChannels == 0 && s.oc % kVectorChannels == 0;
  if (channels_last ? whole : better_in_channels_last(s)) return "whole vectors of channels";
  if (s.c * s.oc > kMostWeightPlanes) return "many channels";
  if (by_matrix(args, s) != ByMatrix::no) return "a product with the weights where they lie";
  if (conv_kind(args) == ConvKind::backward_input && s.dilation_w != 1) return "dilation";
  if (mostly_padding(s)) return "far more padding than image";
  return refuse_epilogue(args);
}

void run(const KernelArgs& args) {
  const ConvShape shape = conv_shape_of(args);
  if (run_if_empty(args, shape)) return;
  switch (conv_kind(args)) {
    case ConvKind::forward: return Forward(args, shape).run();
    case ConvKind::backward_input: return backward_input(args, shape);
    case ConvKind::backward_weight: return backward_weight(args, shape);
  }
}

}  // namespace

void register_conv2d_direct() {
  for (OpId op : kConvolutions) {
    add(op, {"direct tiles", refuse, run});
  }
}

}  // namespace facula::cpu
