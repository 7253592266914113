// Depthwise convolutions: as many groups as channels, each with one input and one output channel.
//
// They do few operations per element, so everything is about reading and writing each element
// once, in channels_last. The gradient of the input is a convolution of the gradient whose taps
// depend on the position: with stride s, each of s classes of rows and columns meets every s-th
// tap. In every dimension, the positions that meet the same taps inside the image make a segment;
// within a segment there are no borders.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <deque>

#include "backends/cpu/kernels/depthwise.h"
#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/streaming.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Products worth a slice of their own, and how many slices to make at most.
constexpr std::int64_t kSliceWork = 256 << 10;
constexpr std::int64_t kMostSlices = 64;
/// Partial sums of a weight gradient.
constexpr std::int64_t kMostParts = 16;
/// Bytes of weights that stay in the first-level cache.
constexpr std::int64_t kWeightBytes = 16 << 10;
/// Bytes of images and results that stay in the second-level cache, and most that may come from
/// the one behind it.
constexpr std::int64_t kPlaneBytes = 256 << 10, kMostPlaneBytes = 2 << 20;
/// Pixels whose products are summed up in registers.
constexpr std::int64_t kPatchPixels = 32;

using base::divide_up;

/// Weights as [rows, columns, channels].
class PackedWeights {
 public:
  /// Of s.c channels from `first` on.
  PackedWeights(const Tensor& weight, const ConvShape& s, std::int64_t first = 0)
      : data_(s.kh * s.kw * s.c) {
    const IntList strides = weight.strides();
    const float* from = weight.impl()->typed<float>() + first * strides[0];
    float* to = data_.data();
    for (std::int64_t i = 0; i < s.kh; ++i) {
      for (std::int64_t j = 0; j < s.kw; ++j, to += s.c) {
        const float* tap = from + i * strides[2] + j * strides[3];
        for (std::int64_t c = 0; c < s.c; ++c) to[c] = tap[c * strides[0]];
      }
    }
  }
  const float* data() const { return data_.data(); }

 private:
  Scratch<float> data_;
};

/// Positions of the result, first + i * step, that meet the same taps.
struct Segment {
  std::int64_t first, step, count;
  std::int64_t input;  ///< the position that offsets of taps count from, at the first
  DepthwiseTaps taps;
};

/// One dimension of a convolution or of the gradient of its input.
class Axis {
 public:
  struct Window {
    std::int64_t outputs, inputs, taps, stride, padding, dilation;
  };

  /// Elements from one position to the next in the image, and from one tap to the next in the
  /// weights.
  struct Units {
    std::int64_t image, weights;
  };

  Axis(const Window& w, bool transposed, Units units)
      : input_step(transposed ? 1 : w.stride),
        offsets_(w.taps),
        weights_(w.taps),
        segments_(w.outputs),
        segment_of_(w.outputs),
        taps_(w.taps) {
    const std::int64_t classes = transposed ? w.stride : 1;
    const Scratch<std::int64_t> shifts(w.taps);
    std::int64_t used = 0;
    for (std::int64_t first = 0; first < std::min(classes, w.outputs); ++first) {
      const std::int64_t begin = used;
      for (std::int64_t tap = 0; tap < w.taps; ++tap) {
        const std::int64_t shift =
            transposed ? first + w.padding - tap * w.dilation : tap * w.dilation - w.padding;
        if (shift % classes != 0) continue;
        shifts[used - begin] = shift / classes;
        reach = std::max(reach, shift / classes + 1);
        offsets_[used] = shift / classes * units.image;
        weights_[used++] = tap * units.weights;
      }
      add_segments(w, {first, classes}, begin, used - begin, shifts.data());
    }
  }

  std::int64_t size() const { return count_; }
  const Segment& operator[](std::int64_t i) const { return segments_[i]; }
  const Segment& at(std::int64_t position) const { return segments_[segment_of_[position]]; }
  /// With stride 1.
  DepthwiseTaps all_taps() const { return {taps_, offsets_.data(), weights_.data()}; }

  std::int64_t input_step;  ///< from one position of a segment to the next
  std::int64_t reach = 0;   ///< the first position beyond all taps of position 0

 private:
  struct Positions {
    std::int64_t first, step;
  };

  /// The segments of positions that meet some of `count` taps, which lie `shifts` away.
  void add_segments(const Window& w, Positions positions, std::int64_t begin, std::int64_t count,
                    const std::int64_t* shifts) {
    std::int64_t input = 0;
    for (std::int64_t p = positions.first; p < w.outputs;
         p += positions.step, input += input_step) {
      const auto inside = [&](std::int64_t tap) {
        return input + shifts[tap] >= 0 && input + shifts[tap] < w.inputs;
      };
      std::int64_t first = 0, last = count;
      while (first < last && !inside(first)) ++first;
      while (last > first && !inside(last - 1)) --last;
      const DepthwiseTaps taps = {last - first, offsets_.data() + begin + first,
                                  weights_.data() + begin + first};
      const bool same = p > positions.first && segments_[count_ - 1].taps.count == taps.count &&
                        segments_[count_ - 1].taps.offsets == taps.offsets;
      if (!same) segments_[count_++] = {p, positions.step, 0, input, taps};
      ++segments_[count_ - 1].count;
      segment_of_[p] = count_ - 1;
    }
  }

  Scratch<std::int64_t> offsets_, weights_;
  Scratch<Segment> segments_;
  Scratch<std::int64_t> segment_of_;
  std::int64_t count_ = 0, taps_;
};

/// Whether images and results, with room for others, are in the caches, where asking ahead costs.
bool are_near(const ConvShape& s) {
  const std::int64_t pixels = s.n * (s.h * s.w + s.oh * s.ow);
  return pixels * s.c * std::int64_t{sizeof(float)} <= most_near_bytes() / 3;
}

/// The convolution, or with `transposed` the gradient of its input.
class Correlation {
 public:
  Correlation(const ConvShape& s, bool transposed)
      : images_(s.n),
        channels_(s.c),
        width_(transposed ? s.ow : s.w),
        height_(transposed ? s.oh : s.h),
        out_width_(transposed ? s.w : s.ow),
        out_height_(transposed ? s.h : s.oh),
        work_(s.n * s.multiplications_per_image()),
        rows_({out_height_, height_, s.kh, s.stride_h, s.pad_h, s.dilation_h}, transposed,
              {width_ * s.c, s.kw * s.c}),
        columns_({out_width_, width_, s.kw, s.stride_w, s.pad_w, s.dilation_w}, transposed,
                 {s.c, s.c}),
        block_(channels_of_block(s)),
        narrow_(narrow_width(s.w) && s.kw == 3 && s.stride_w == 1 && s.pad_w == 1 &&
                s.dilation_w == 1 && s.kh <= kDepthwiseBlock),
        near_(are_near(s)) {}

  void run(const float* images, const float* weights, const float* bias,
           const ConvEpilogue& epilogue, float* out) const {
    const std::int64_t lines = images_ * out_height_;
    const std::int64_t together = divide_up(
        lines, std::clamp<std::int64_t>(work_ / kSliceWork, 1, std::min(lines, kMostSlices)));
    const bool stream = epilogue.empty() && channels_ % kLineElements == 0 && begins_line(out) &&
                        worth_streaming(lines * out_width_ * channels_ * kElementBytes);
    base::parallel_for(divide_up(lines, together), [&](std::int64_t slice) {
      const std::int64_t end = std::min((slice + 1) * together, lines);
      for (std::int64_t line = slice * together; line < end;) {
        const std::int64_t n = line / out_height_, y = line % out_height_;
        const std::int64_t count = std::min(out_height_ - y, end - line);
        const DepthwiseLine common = {.input = images + n * height_ * width_ * channels_,
                                      .weights = weights,
                                      .bias = bias,
                                      .out = out + n * out_height_ * out_width_ * channels_,
                                      .stream = stream};
        run_lines(common, y, y + count);
        epilogue.finish(common.out + y * out_width_ * channels_, line * out_width_,
                        count * out_width_);
        line += count;
      }
      if (stream) finish_streaming();
    });
  }

  /// One image.
  void run(const float* image, const float* weights, const float* bias, float* out) const {
    run_lines({.input = image, .weights = weights, .bias = bias, .out = out}, 0, out_height_);
  }

 private:
  static constexpr std::int64_t kElementBytes = sizeof(float);
  static constexpr std::int64_t kLineElements = kLineBytes / kElementBytes;

  std::int64_t channels_of_block(const ConvShape& s) const {
    const std::int64_t most = std::max(kLineElements, kWeightBytes / (s.kh * s.kw * kElementBytes));
    const std::int64_t blocks = divide_up(s.c, most);
    return divide_up(divide_up(s.c, blocks), kLineElements) * kLineElements;
  }

  /// Lines of an image's results.
  void run_lines(const DepthwiseLine& image, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t c = 0; c < channels_; c += block_) {
      DepthwiseLine line = image;
      line.channels = std::min(block_, channels_ - c);
      line.step = columns_.input_step * channels_;
      // What the next line meets for the first time.
      if (!near_) {
        line.ahead = {rows_.reach * width_ * channels_, std::min(rows_.input_step, height_),
                      width_ * channels_, std::min(columns_.input_step, width_), channels_};
        line.out_ahead = image.stream ? 0 : out_width_ * channels_;
      }
      line.input += c;
      line.weights += c;
      if (line.bias) line.bias += c;
      for (std::int64_t y = begin; y < end; ++y) {
        const Segment& row = rows_.at(y);
        const std::int64_t input_row = row.input + (y - row.first) / row.step * rows_.input_step;
        line.rows = row.taps;
        line.narrow = narrow_ && line.rows.count > 0;
        if (line.narrow) {
          line.columns = columns_.all_taps();
          line.pixels = width_;
          line.shift = input_row * width_ * channels_;
          line.out = image.out + y * out_width_ * channels_ + c;
          line.out_step = channels_;
          depthwise_kernels().store_line(line);
          continue;
        }
        for (std::int64_t i = 0; i < columns_.size(); ++i) {
          const Segment& columns = columns_[i];
          line.columns = columns.taps;
          line.pixels = columns.count;
          line.shift = (input_row * width_ + columns.input) * channels_;
          line.out = image.out + (y * out_width_ + columns.first) * channels_ + c;
          line.out_step = columns.step * channels_;
          depthwise_kernels().store_line(line);
        }
      }
    }
  }

  std::int64_t images_, channels_, width_, height_, out_width_, out_height_, work_;
  Axis rows_, columns_;
  std::int64_t block_;
  bool narrow_;  ///< lines are worked on as wholes
  bool near_;
};

/// Contiguous images, whose channels are planes: some channels of an image at a time are brought
/// into channels_last, and what becomes of them back, within the caches.
class Planes {
 public:
  explicit Planes(const ConvShape& s) : s_(s) {
    const std::int64_t bytes = (s.h * s.w + s.oh * s.ow) * std::int64_t{sizeof(float)};
    const std::int64_t fitting = kPlaneBytes / std::max<std::int64_t>(1, bytes);
    together_ = std::min(s.c, std::max<std::int64_t>(kLine, fitting / kLine * kLine));
    fit_ = together_ * bytes <= kMostPlaneBytes;
  }

  bool fit() const { return fit_; }
  std::int64_t blocks() const { return divide_up(s_.c, together_); }
  std::int64_t first(std::int64_t block) const { return block * together_; }
  /// An image with the channels of a block alone.
  ConvShape shape(std::int64_t block) const {
    ConvShape shape = s_;
    shape.n = 1;
    shape.c = shape.oc = shape.groups = std::min(together_, s_.c - first(block));
    return shape;
  }

  /// Channels of a block of image `n`, of so many pixels, to and from channels_last.
  void read(const float* images, std::int64_t n, std::int64_t block, std::int64_t pixels,
            float* to) const {
    const std::int64_t count = shape(block).c;
    gemm_loops<float>().transpose(images + (n * s_.c + first(block)) * pixels, pixels, count,
                                  pixels, to, count);
  }
  void write(const float* from, std::int64_t n, std::int64_t block, std::int64_t pixels,
             float* images) const {
    const std::int64_t count = shape(block).c;
    gemm_loops<float>().transpose(from, count, pixels, count,
                                  images + (n * s_.c + first(block)) * pixels, pixels);
  }

 private:
  static constexpr std::int64_t kLine = kLineBytes / sizeof(float);

  const ConvShape& s_;
  std::int64_t together_;
  bool fit_;
};

void correlate_planes(const KernelArgs& args, const ConvShape& s, bool transposed,
                      const Planes& planes, const float* bias) {
  struct Block {
    Block(const Tensor& weight, const ConvShape& shape, std::int64_t first, bool transposed)
        : weights(weight, shape, first), correlation(shape, transposed) {}
    PackedWeights weights;
    Correlation correlation;
  };
  std::deque<Block> blocks;
  for (std::int64_t b = 0; b < planes.blocks(); ++b) {
    blocks.emplace_back(args.in(1), planes.shape(b), planes.first(b), transposed);
  }
  const float* images = args.in(0).impl()->typed<float>();
  float* results = args.out().impl()->typed<float>();
  const std::int64_t pixels = transposed ? s.oh * s.ow : s.h * s.w;
  const std::int64_t out_pixels = transposed ? s.h * s.w : s.oh * s.ow;
  base::parallel_for(s.n * planes.blocks(), [&](std::int64_t task) {
    const std::int64_t n = task / planes.blocks(), b = task % planes.blocks();
    const std::int64_t channels = planes.shape(b).c;
    const Scratch<float> image(channels * pixels), result(channels * out_pixels);
    planes.read(images, n, b, pixels, image.data());
    blocks[b].correlation.run(image.data(), blocks[b].weights.data(),
                              bias ? bias + planes.first(b) : nullptr, result.data());
    planes.write(result.data(), n, b, out_pixels, results);
  });
}

void run_correlation(const KernelArgs& args, const ConvShape& s, bool transposed) {
  const Tensor bias_values = args.has(2) ? args.in(2).contiguous() : Tensor();
  const float* bias = bias_values.defined() ? bias_values.impl()->typed<float>() : nullptr;
  const ConvEpilogue epilogue(args, kChannelsLast);
  const bool convert = !args.out().is_contiguous(kChannelsLast);
  const Planes planes(s);
  if (convert && are_planes(args.in(0)) && epilogue.empty() && planes.fit()) {
    return correlate_planes(args, s, transposed, planes, bias);
  }
  const Tensor images = args.in(0).contiguous(kChannelsLast);
  const PackedWeights weights(args.in(1), s);
  const Tensor out =
      convert ? new_tensor(args.out().sizes(), kFloat32, kCPU, kChannelsLast) : args.out();
  Correlation(s, transposed)
      .run(images.impl()->typed<float>(), weights.data(), bias, epilogue,
           out.impl()->typed<float>());
  if (convert) args.out().copy_(out);
}

/// Sums of the gradient of the weights, [rows, columns, channels], over some lines of the results.
class WeightSums {
 public:
  WeightSums(const ConvShape& shape, const float* grad, const float* images)
      : s(shape), grad_(grad), images_(images), zeros_(shape.w * shape.c), near_(are_near(shape)) {
    std::fill_n(zeros_.data(), s.w * s.c, 0.0f);
  }

  std::int64_t numel() const { return s.kh * s.kw * s.c; }

  /// Lines count through the images.
  void run(std::int64_t begin, std::int64_t end, float* sums) const {
    std::fill_n(sums, numel(), 0.0f);
    const std::int64_t band = std::max<std::int64_t>(1, kPatchPixels / s.ow);
    for (std::int64_t line = begin; line < end;) {
      const std::int64_t y = line % s.oh;
      const std::int64_t count = std::min({band, s.oh - y, end - line});
      for (std::int64_t x = 0; x < s.ow; x += kPatchPixels) {
        add_patch({line / s.oh, y, x, count, std::min(kPatchPixels, s.ow - x)}, sums);
      }
      line += count;
    }
  }

  void write(const float* sums, float* out, IntList strides) const {
    for (std::int64_t i = 0; i < s.kh; ++i) {
      for (std::int64_t j = 0; j < s.kw; ++j, sums += s.c) {
        float* tap = out + i * strides[2] + j * strides[3];
        for (std::int64_t c = 0; c < s.c; ++c) tap[c * strides[0]] = sums[c];
      }
    }
  }

 private:
  /// Pixels of the gradient of an image.
  struct Patch {
    std::int64_t image, y, x, lines, pixels;
  };

  void add_patch(const Patch& p, float* sums) const {
    DepthwiseSums block = {.channels = s.c,
                           .grad = grad_ + ((p.image * s.oh + p.y) * s.ow + p.x) * s.c,
                           .grad_line = s.ow * s.c,
                           .lines = p.lines,
                           .pixels = p.pixels,
                           .pixel_step = s.c,
                           .image = images_ + p.image * s.h * s.w * s.c,
                           .zeros = zeros_.data(),
                           .height = s.h,
                           .width = s.w,
                           .row_stride = s.stride_h,
                           .row_dilation = s.dilation_h,
                           .column_stride = s.stride_w,
                           .column_dilation = s.dilation_w,
                           .sums_row_step = s.kw * s.c,
                           .sums_column_step = s.c};
    // What the patch below meets for the first time.
    if (!near_) {
      const std::int64_t last_row = (s.kh - 1) * s.dilation_h + (p.lines - 1) * s.stride_h;
      block.ahead = {(last_row + 1) * s.w * s.c, std::min(s.stride_h, s.h), s.w * s.c,
                     std::min(s.stride_w, s.w), s.c};
      block.grad_ahead = p.lines * s.ow * s.c;
    }
    for (std::int64_t i = 0; i < s.kh; i += block.rows) {
      block.rows = std::min(kDepthwiseBlock, s.kh - i);
      block.first_row = p.y * s.stride_h - s.pad_h + i * s.dilation_h;
      for (std::int64_t j = 0; j < s.kw; j += block.columns) {
        block.columns = std::min(kDepthwiseBlock, s.kw - j);
        block.first_column = p.x * s.stride_w - s.pad_w + j * s.dilation_w;
        const std::int64_t reach = (block.columns - 1) * s.dilation_w;
        const std::int64_t before = std::max<std::int64_t>(0, -block.first_column);
        const std::int64_t room = std::max<std::int64_t>(0, s.w - reach - block.first_column);
        block.inner_begin = std::min(divide_up(before, s.stride_w), p.pixels);
        block.inner_end = std::clamp(divide_up(room, s.stride_w), block.inner_begin, p.pixels);
        block.sums = sums + (i * s.kw + j) * s.c;
        depthwise_kernels().add_products(block);
        block.ahead.lines = 0;
      }
    }
  }

  const ConvShape& s;
  const float* grad_;
  const float* images_;
  Scratch<float> zeros_;
  bool near_;
};

/// The sums of parts of the images, and of blocks of channels.
void sum_planes(const KernelArgs& args, const ConvShape& s, const Planes& planes) {
  const float* grads = args.in(0).impl()->typed<float>();
  const float* images = args.in(1).impl()->typed<float>();
  const std::int64_t work = s.n * s.multiplications_per_image();
  const std::int64_t together =
      divide_up(s.n, std::clamp<std::int64_t>(work / kSliceWork, 1, std::min(s.n, kMostParts)));
  const std::int64_t parts = divide_up(s.n, together), taps = s.kh * s.kw;
  const Scratch<float> partial(parts * taps * s.c);
  const auto sums_of = [&](std::int64_t block, std::int64_t part) {
    return partial.data() + (planes.first(block) * parts + planes.shape(block).c * part) * taps;
  };
  base::parallel_for(parts * planes.blocks(), [&](std::int64_t task) {
    const std::int64_t part = task / planes.blocks(), b = task % planes.blocks();
    const ConvShape shape = planes.shape(b);
    const Scratch<float> grad(shape.c * s.oh * s.ow), image(shape.c * s.h * s.w);
    const WeightSums sums(shape, grad.data(), image.data());
    const Scratch<float> own(sums.numel());
    float* total = sums_of(b, part);
    const std::int64_t begin = part * together, end = std::min(begin + together, s.n);
    for (std::int64_t n = begin; n < end; ++n) {
      planes.read(grads, n, b, s.oh * s.ow, grad.data());
      planes.read(images, n, b, s.h * s.w, image.data());
      sums.run(0, s.oh, n == begin ? total : own.data());
      for (std::int64_t i = 0; n > begin && i < sums.numel(); ++i) total[i] += own[i];
    }
  });
  for (std::int64_t b = 0; b < planes.blocks(); ++b) {
    const ConvShape shape = planes.shape(b);
    sum_parts(sums_of(b, 0), parts, taps * shape.c);
    const IntList strides = args.out().strides();
    WeightSums(shape, nullptr, nullptr)
        .write(sums_of(b, 0), args.out().impl()->typed<float>() + planes.first(b) * strides[0],
               strides);
  }
}

void run_backward_weight(const KernelArgs& args, const ConvShape& s) {
  const Planes planes(s);
  if (are_planes(args.in(0)) && are_planes(args.in(1)) && planes.fit()) {
    return sum_planes(args, s, planes);
  }
  const Tensor grad = args.in(0).contiguous(kChannelsLast);
  const Tensor images = args.in(1).contiguous(kChannelsLast);
  const WeightSums sums(s, grad.impl()->typed<float>(), images.impl()->typed<float>());
  const std::int64_t lines = s.n * s.oh, work = s.n * s.multiplications_per_image();
  const std::int64_t together =
      divide_up(lines, std::clamp<std::int64_t>(work / kSliceWork, 1, std::min(lines, kMostParts)));
  const std::int64_t parts = divide_up(lines, together);
  const Scratch<float> partial(parts * sums.numel());
  base::parallel_for(parts, [&](std::int64_t part) {
    sums.run(part * together, std::min((part + 1) * together, lines),
             partial.data() + part * sums.numel());
  });
  sum_parts(partial.data(), parts, sums.numel());
  sums.write(partial.data(), args.out().impl()->typed<float>(), args.out().strides());
}

Refusal refuse(const KernelArgs& args) {
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  if (s.groups == 1 || s.groups != s.c || s.groups != s.oc) return "not depthwise";
  if (depthwise_by_planes(args, s)) return "better by planes";
  return refuse_epilogue(args);
}

void run(const KernelArgs& args) {
  const ConvShape shape = conv_shape_of(args);
  if (run_if_empty(args, shape)) return;
  switch (conv_kind(args)) {
    case ConvKind::forward: return run_correlation(args, shape, false);
    case ConvKind::backward_input: return run_correlation(args, shape, true);
    case ConvKind::backward_weight: return run_backward_weight(args, shape);
  }
}

}  // namespace

void register_conv2d_depthwise() {
  for (OpId op : kConvolutions) {
    add(op, {"depthwise", refuse, run});
  }
}

}  // namespace facula::cpu
