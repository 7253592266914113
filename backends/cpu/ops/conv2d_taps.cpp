// Gradients of the weights on channels_last, tap by tap: a tap pairs every pixel of the result with
// one of the image, and its gradient is the sum of their products, channels by channels. Pairs with
// padding are left out, which matters for small images.
#include "backends/cpu/convolution.h"

#include <algorithm>
#include <span>
#include <utility>

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

/// Sums of a task, of all taps, and elements of the pixels that they meet at a time: both stay in
/// the second-level cache.
constexpr std::int64_t kTaskSums = 65536, kChunkElements = 65536;
/// Rows of tiles of sums, of which blocks of sums have multiples, and their columns.
constexpr std::int64_t kTileRows = 12, kColumns = 128;
/// Pixels that are packed at a time, of which a panel stays in the first-level cache, and columns
/// of a single tap: memory gives less where many blocks read a part of each pixel.
constexpr std::int64_t kPackedPixels = 256, kPackedColumns = 192;
/// Tasks that suffice. Where few sums make few tasks, the images are cut into parts, of which all
/// sums take at most kPartElements together.
constexpr std::int64_t kTasks = 32, kMostParts = 16, kPartElements = 2 << 20;
/// Multiplications, and pixels, worth a part of their own.
constexpr std::int64_t kPartWork = 4 << 20, kPartPixels = 512;
/// Below, the library's blocks of channels fill registers better.
constexpr std::int64_t kFewestChannels = 32;

using base::divide_up;

const PointwiseKernels& kernels() { return pointwise_kernels(); }

/// One operand of the products: images as lines of pixels of channels.
struct Side {
  Side(const Tensor& images, std::int64_t pixel_step)
      : pixels(images.impl()->typed<float>()),
        channels(images.size(1)),
        width(images.size(3)),
        count(images.numel() / channels),
        line(width * channels),
        step(pixel_step * channels) {}

  /// A share of the lines from `first` on, `lines` lines or as many as there are: some of the
  /// channels of their pixels.
  RowsAhead ahead(std::int64_t first, std::int64_t lines, std::int64_t channel, std::int64_t some,
                  std::int64_t share, std::int64_t shares) const {
    const std::int64_t begin = std::min(first * width, count);
    const std::int64_t all = std::min(lines * width, count - begin);
    const std::int64_t from = begin + all * share / shares, to = begin + all * (share + 1) / shares;
    return {pixels + from * channels + channel, channels, to - from, some};
  }

  const float* pixels;
  std::int64_t channels, width;
  std::int64_t count;  ///< of the pixels
  std::int64_t line;   ///< elements
  std::int64_t step;   ///< elements from a pixel to the next that is met
};

/// The sums of all taps, a matrix each, over a part of the result's lines. Blocks of rows and
/// columns of the matrices are [taps, rows, columns]; the last ones use less of that.
class TapSums {
 public:
  TapSums(const ConvShape& shape, const Tensor& gradient, const Tensor& images)
      : s_(shape),
        taps_(shape.kh * shape.kw),
        result_(gradient, 1),
        image_(images, shape.stride_w) {
    // The side along the vectors is the one that fills them better, else the image.
    const std::int64_t by_outputs = kernels().padded(s_.oc) * s_.c;
    swapped_ = by_outputs < kernels().padded(s_.c) * s_.oc;
    m_ = swapped_ ? s_.c : s_.oc;
    n_ = swapped_ ? s_.oc : s_.c;
    const bool wide = taps_ == 1 && packs(m_, n_);
    columns_ = kernels().padded(divide_up(n_, divide_up(n_, wide ? kPackedColumns : kColumns)));
    const std::int64_t fitting = kTaskSums / (taps_ * columns_);
    rows_ = std::min(m_, std::max(kTileRows, fitting / kTileRows * kTileRows));
    std::int64_t pixels = kChunkElements / (rows_ + columns_);
    if (packs(rows_, columns_)) pixels = std::min(pixels, kPackedPixels);
    chunk_ = std::max<std::int64_t>(1, pixels / s_.ow);
  }

  std::int64_t block_size() const { return taps_ * rows_ * columns_; }
  std::int64_t blocks() const { return divide_up(m_, rows_) * divide_up(n_, columns_); }
  std::int64_t lines() const { return s_.n * s_.oh; }

  /// Adds the lines [first, last) to a block, of which `sums` is the first element.
  void add(std::int64_t block, std::int64_t first, std::int64_t last, float* sums) const {
    const std::int64_t most = std::min(chunk_, last - first);
    const Scratch<std::int64_t> of_result(most), of_image(most);
    for (std::int64_t line = first; line < last; line += chunk_) {
      const std::int64_t end = std::min(line + chunk_, last);
      for (std::int64_t tap = 0; tap < s_.kh; ++tap) {
        const TapMeeting rows(tap, s_.dilation_h, s_.stride_h, s_.pad_h, s_.h, s_.oh);
        std::size_t met = 0;
        for (std::int64_t at = line; at < end; ++at) {
          const std::int64_t y = at % s_.oh;
          if (!rows.contains(y)) continue;
          of_result.data()[met] = at * result_.line;
          of_image.data()[met++] = (at / s_.oh * s_.h + rows.input(y)) * image_.line;
        }
        if (met == 0) continue;
        add_row_of_taps(block, tap, end, {of_result.data(), met}, {of_image.data(), met}, sums);
      }
    }
  }

  /// Writes the weights of a block.
  void write(std::int64_t block, const float* sums, const Taps<float>& weights) const {
    const std::int64_t row_stride = swapped_ ? weights.channel_stride : weights.output_stride;
    const std::int64_t column_stride = swapped_ ? weights.output_stride : weights.channel_stride;
    const std::int64_t columns = columns_of(block), plane = rows_ * columns_;
    const auto& loops = gemm_loops<float>();
    for (std::int64_t i = 0; i < rows_of(block); ++i, sums += columns_) {
      float* to =
          weights.data + (first_row(block) + i) * row_stride + first_column(block) * column_stride;
      if (column_stride == 1) {
        loops.copy(sums, plane, taps_, columns, to, weights.tap_stride);
      } else if (weights.tap_stride == 1) {
        loops.transpose(sums, plane, taps_, columns, to, column_stride);
      } else {  // swapped: a row of a block is one channel of many outputs, far apart
        for (std::int64_t tap = 0; tap < taps_; ++tap) {
          loops.transpose(sums + tap * plane, columns, 1, columns, to + tap * weights.tap_stride,
                          column_stride);
        }
      }
    }
  }

 private:
  static bool packs(std::int64_t m, std::int64_t n) {
    return kernels().packed_size(m, n, kPackedPixels) > 0;
  }
  std::int64_t column_blocks() const { return divide_up(n_, columns_); }
  std::int64_t first_row(std::int64_t block) const { return block / column_blocks() * rows_; }
  std::int64_t first_column(std::int64_t block) const { return block % column_blocks() * columns_; }
  std::int64_t rows_of(std::int64_t block) const { return std::min(rows_, m_ - first_row(block)); }
  std::int64_t columns_of(std::int64_t block) const {
    return std::min(columns_, n_ - first_column(block));
  }

  void add_row_of_taps(std::int64_t block, std::int64_t tap_row, std::int64_t next_line,
                       std::span<const std::int64_t> of_result,
                       std::span<const std::int64_t> of_image, float* sums) const {
    const std::int64_t row = first_row(block), rows = rows_of(block);
    const std::int64_t column = first_column(block), columns = columns_of(block);
    const Side &a = swapped_ ? image_ : result_, &b = swapped_ ? result_ : image_;
    const std::int64_t most = std::ssize(of_result) * s_.ow;
    const std::int64_t packed_size = kernels().packed_size(rows, columns, most);
    const Scratch<float> packed(packed_size);
    for (std::int64_t tap = 0; tap < s_.kw; ++tap) {
      const TapMeeting met(tap, s_.dilation_w, s_.stride_w, s_.pad_w, s_.w, s_.ow);
      if (met.count() == 0) continue;
      const std::int64_t of_a = swapped_ ? met.input(met.begin) : met.begin,
                         of_b = swapped_ ? met.begin : met.input(met.begin);
      const std::int64_t number = tap_row * s_.kw + tap;
      kernels().correlate({
          .m = rows,
          .n = columns,
          .a = a.pixels + of_a * a.channels + row,
          .b = b.pixels + of_b * b.channels + column,
          .a_step = a.step,
          .b_step = b.step,
          .rows = met.count(),
          .a_runs = swapped_ ? of_image : of_result,
          .b_runs = swapped_ ? of_result : of_image,
          .sums = sums + number * rows_ * columns_,
          .sums_step = columns_,
          .next_a = ahead(a, next_line, row, rows, number),
          .next_b = ahead(b, next_line, column, columns, number),
          .packed = packed_size > 0 ? packed.data() : nullptr,
      });
    }
  }

  /// What the next chunk, from a line of the result on, reads first; a tap's share of it.
  RowsAhead ahead(const Side& side, std::int64_t line, std::int64_t channel, std::int64_t channels,
                  std::int64_t tap) const {
    if (&side == &result_) return side.ahead(line, chunk_, channel, channels, tap, taps_);
    const std::int64_t image_line = line / s_.oh * s_.h + line % s_.oh * s_.stride_h;
    return side.ahead(image_line, chunk_ * s_.stride_h, channel, channels, tap, taps_);
  }

  const ConvShape& s_;
  std::int64_t taps_;
  Side result_, image_;
  bool swapped_;  ///< the matrices are [channels, outputs]
  std::int64_t m_, n_;
  std::int64_t rows_, columns_;  ///< of a block
  std::int64_t chunk_;           ///< lines that are added at a time
};

void run(const KernelArgs& args) {
  const ConvShape s = conv_shape_of(args);
  if (run_if_empty(args, s)) return;
  const Tensor gradient = args.in(0).detach().contiguous(kChannelsLast);
  const Tensor images = args.in(1).detach().contiguous(kChannelsLast);
  const TapSums taps(s, gradient, images);
  const std::int64_t blocks = taps.blocks(), block_size = taps.block_size();
  const std::int64_t size = blocks * block_size, lines = taps.lines();
  // Parts depend on the sizes alone, and so do the bits.
  const std::int64_t by_work =
      std::min(s.n * s.multiplications_per_image() / kPartWork, lines * s.ow / kPartPixels);
  const std::int64_t useful =
      std::min({by_work, kPartElements / size, divide_up(kTasks, blocks), lines});
  // An even number of tasks, which two threads share evenly.
  const std::int64_t even = useful > 1 && blocks % 2 == 1 ? useful + useful % 2 : useful;
  const std::int64_t wanted = std::clamp<std::int64_t>(even, 1, kMostParts);
  const std::int64_t per_part = divide_up(lines, wanted), parts = divide_up(lines, per_part);
  const Tensor& out = args.out();
  const bool dense = out.is_contiguous() || out.is_contiguous(kChannelsLast);
  const Tensor result = dense ? out : new_tensor(out.sizes(), kFloat32, kCPU);
  const auto weights = taps_of<float>(result);
  // Only sums of several parts outlive the task that makes them.
  const Scratch<float> partial(parts > 1 ? parts * size : 0);
  base::parallel_for(parts * blocks, [&](std::int64_t task) {
    const std::int64_t block = task / parts, part = task % parts, first = part * per_part;
    const Scratch<float> own(parts > 1 ? 0 : block_size);
    float* sums = parts > 1 ? partial.data() + part * size + block * block_size : own.data();
    std::fill_n(sums, block_size, 0.0f);
    taps.add(block, first, std::min(first + per_part, lines), sums);
    if (parts == 1) taps.write(block, sums, weights);
  });
  if (parts > 1) {
    sum_parts(partial.data(), parts, size);
    base::parallel_for(blocks, [&](std::int64_t block) {
      taps.write(block, partial.data() + block * block_size, weights);
    });
  }
  if (!dense) out.copy_(result);
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
