// Gradients of the weights on channels_last, tap by tap: a tap pairs every pixel of the result with
// one of the image, and its gradient is the sum of their products, channels by channels. Pairs with
// padding are left out, which matters for small images.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <facula/ops.h>

#include "backends/cpu/kernels/pointwise.h"
#include "backends/cpu/ops/tap_meeting.h"
#include "backends/cpu/registration.h"
#include "base/thread_pool.h"

namespace facula::cpu {
namespace {

/// Sums of a task, of all taps, and elements of the pixels that they meet at a time: both stay in
/// the second-level cache.
constexpr std::int64_t kTaskSums = 65536, kChunkElements = 65536;
/// Tasks that suffice. Where few sums make few tasks, the images are cut into parts, of which all
/// sums take at most kPartElements together.
constexpr std::int64_t kTasks = 32, kMostParts = 16, kPartElements = 2 << 20;
/// Multiplications, and pixels, worth a part of their own.
constexpr std::int64_t kPartWork = 4 << 20, kPartPixels = 512;
/// Below, the library's blocks of channels fill registers better.
constexpr std::int64_t kFewestChannels = 32;
/// Rows of tiles of sums, of which blocks are multiples.
constexpr std::int64_t kTileRows = 12;

const PointwiseKernels& kernels() { return pointwise_kernels(); }

/// One operand of the products: images as lines of pixels of channels.
struct Side {
  Side(const Tensor& images, std::int64_t pixel_step)
      : pixels(images.impl()->typed<float>()),
        channels(images.size(1)),
        line(images.size(3) * channels),
        step(pixel_step * channels),
        elements(images.numel()) {}

  /// The elements from a line on, `lines` lines or as many as there are.
  std::span<const float> lines(std::int64_t first, std::int64_t count) const {
    const std::int64_t begin = std::min(first * line, elements);
    return {pixels + begin, static_cast<std::size_t>(std::min(count * line, elements - begin))};
  }

  const float* pixels;
  std::int64_t channels, line, step, elements;
};

/// The sums of all taps, [taps, m, padded(n)], of a part of the result's lines.
class TapSums {
 public:
  TapSums(const ConvShape& shape, const Tensor& gradient, const Tensor& images)
      : s_(shape), result_(gradient, 1), image_(images, shape.stride_w) {
    // The side along the vectors is the one that fills them better, else the image.
    const std::int64_t by_outputs = kernels().padded(s_.oc) * s_.c;
    swapped_ = by_outputs < kernels().padded(s_.c) * s_.oc;
    m_ = swapped_ ? s_.c : s_.oc;
    n_ = swapped_ ? s_.oc : s_.c;
    row_ = kernels().padded(n_);
    const std::int64_t fitting = kTaskSums / (s_.kh * s_.kw * row_);
    block_ = std::min(m_, std::max(kTileRows, fitting / kTileRows * kTileRows));
    chunk_ = std::max<std::int64_t>(1, kChunkElements / ((block_ + n_) * s_.ow));
  }

  bool swapped() const { return swapped_; }
  std::int64_t row() const { return row_; }
  std::int64_t size() const { return s_.kh * s_.kw * m_ * row_; }
  std::int64_t blocks() const { return (m_ + block_ - 1) / block_; }
  std::int64_t lines() const { return s_.n * s_.oh; }

  /// Adds the lines [first, last) to one block of `sums`.
  void add(std::int64_t block, std::int64_t first, std::int64_t last, float* sums) const {
    std::vector<std::int64_t> of_result, of_image;
    for (std::int64_t line = first; line < last; line += chunk_) {
      const std::int64_t end = std::min(line + chunk_, last);
      for (std::int64_t tap = 0; tap < s_.kh; ++tap) {
        const TapMeeting rows(tap, s_.dilation_h, s_.stride_h, s_.pad_h, s_.h, s_.oh);
        of_result.clear();
        of_image.clear();
        for (std::int64_t at = line; at < end; ++at) {
          const std::int64_t y = at % s_.oh;
          if (!rows.contains(y)) continue;
          of_result.push_back(at * result_.line);
          of_image.push_back((at / s_.oh * s_.h + rows.input(y)) * image_.line);
        }
        if (!of_result.empty()) add_row_of_taps(block, tap, end, of_result, of_image, sums);
      }
    }
  }

 private:
  void add_row_of_taps(std::int64_t block, std::int64_t tap_row, std::int64_t next_line,
                       std::span<const std::int64_t> of_result,
                       std::span<const std::int64_t> of_image, float* sums) const {
    const std::int64_t first = block * block_;
    for (std::int64_t tap = 0; tap < s_.kw; ++tap) {
      const TapMeeting columns(tap, s_.dilation_w, s_.stride_w, s_.pad_w, s_.w, s_.ow);
      if (columns.count() == 0) continue;
      const float* result = result_.pixels + columns.begin * result_.channels;
      const float* image = image_.pixels + columns.input(columns.begin) * image_.channels;
      const std::int64_t number = tap_row * s_.kw + tap;
      const auto [next_result, next_image] = ahead(number, next_line);
      kernels().correlate({
          .m = std::min(block_, m_ - first),
          .n = n_,
          .a = (swapped_ ? image : result) + first,
          .b = swapped_ ? result : image,
          .a_step = swapped_ ? image_.step : result_.step,
          .b_step = swapped_ ? result_.step : image_.step,
          .rows = columns.count(),
          .a_runs = swapped_ ? of_image : of_result,
          .b_runs = swapped_ ? of_result : of_image,
          .sums = sums + (number * m_ + first) * row_,
          .next_a = swapped_ ? next_image : next_result,
          .next_b = swapped_ ? next_result : next_image,
      });
    }
  }

  /// What the next chunk of lines reads first, a tap's share of it.
  std::pair<std::span<const float>, std::span<const float>> ahead(std::int64_t tap,
                                                                  std::int64_t line) const {
    const std::int64_t taps = s_.kh * s_.kw,
                       image_line = line / s_.oh * s_.h + line % s_.oh * s_.stride_h;
    const auto share = [&](std::span<const float> all) {
      const std::size_t each = (all.size() + taps - 1) / taps,
                        begin = std::min(all.size(), tap * each);
      return all.subspan(begin, std::min(each, all.size() - begin));
    };
    return {share(result_.lines(line, chunk_)),
            share(image_.lines(image_line, chunk_ * s_.stride_h))};
  }

  const ConvShape& s_;
  Side result_, image_;
  bool swapped_;
  std::int64_t m_, n_;
  std::int64_t row_;    ///< elements of a row of sums
  std::int64_t block_;  ///< rows of sums of a task
  std::int64_t chunk_;  ///< lines that are added at a time
};

/// The weights of the outputs [first, last) from the sums of all taps.
void write_weights(const TapSums& taps, const ConvShape& s, const float* sums, const Tensor& out,
                   std::int64_t first, std::int64_t last) {
  const IntList strides = out.strides();
  float* data = out.impl()->typed<float>();
  const std::int64_t m = taps.swapped() ? s.c : s.oc, row = taps.row();
  for (std::int64_t k = first; k < last; ++k) {
    for (std::int64_t tap = 0; tap < s.kh * s.kw; ++tap) {
      const float* from = sums + tap * m * row + (taps.swapped() ? k : k * row);
      float* to = data + k * strides[0] + tap / s.kw * strides[2] + tap % s.kw * strides[3];
      for (std::int64_t c = 0; c < s.c; ++c)
        to[c * strides[1]] = from[taps.swapped() ? c * row : c];
    }
  }
}

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  const Tensor gradient = args.in(0).detach().contiguous(kChannelsLast);
  const Tensor images = args.in(1).detach().contiguous(kChannelsLast);
  const TapSums taps(s, gradient, images);
  const std::int64_t size = taps.size(), lines = taps.lines();
  // Parts depend on the sizes alone, and so do the bits.
  const std::int64_t by_work =
      std::min(s.n * s.multiplications_per_image() / kPartWork, lines * s.ow / kPartPixels);
  const std::int64_t useful = std::min(
      {by_work, kPartElements / size, (kTasks + taps.blocks() - 1) / taps.blocks(), lines});
  const std::int64_t wanted = std::clamp<std::int64_t>(useful, 1, kMostParts);
  const std::int64_t per_part = (lines + wanted - 1) / wanted,
                     parts = (lines + per_part - 1) / per_part;
  const Tensor partial = zeros({parts, size});
  float* sums = partial.impl()->typed<float>();
  base::parallel_for(parts * taps.blocks(), [&](std::int64_t task) {
    const std::int64_t part = task % parts, first = part * per_part;
    taps.add(task / parts, first, std::min(first + per_part, lines), sums + part * size);
  });
  sum_parts(sums, parts, size);
  constexpr std::int64_t kOutputs = 16;
  base::parallel_for((s.oc + kOutputs - 1) / kOutputs, [&](std::int64_t slice) {
    write_weights(taps, s, sums, args.out(), slice * kOutputs,
                  std::min((slice + 1) * kOutputs, s.oc));
  });
}

Refusal refuse(const KernelArgs& args) {
  if (args.in(0).dtype() != kFloat32) return "only float32";
  const ConvShape s = conv_shape_of(args);
  if (s.groups != 1) return "groups";
  if (std::min(s.c, s.oc) < kFewestChannels) return "few channels";
  return nullptr;
}

}  // namespace

void register_conv2d_taps() { add(OpId::conv2d_backward_weight, {"tap by tap", refuse, run}); }

}  // namespace facula::cpu
