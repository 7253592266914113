// The parts of Winograd convolution with 3x3 weights on channels_last images. The arithmetic is in
// backends/cpu/kernels/winograd.h.
#pragma once

#include <algorithm>
#include <array>

#include "backends/cpu/convolution.h"
#include "backends/cpu/kernels/winograd.h"
#include "backends/cpu/weight_taps.h"
#include "base/divide_up.h"

namespace facula::cpu::winograd {

/// The taps of the weights in one dimension, and all of them.
constexpr std::int64_t kTaps = 3, kAllTaps = kTaps * kTaps;
/// Matrices of transformed weights, for stride 1 and, in all parts together, for stride 2.
constexpr std::int64_t kMatrices = 36;
/// With fewer tiles the smaller ones do not pay: tiles of each size read the weights anew.
constexpr std::int64_t kFewestTilesOfSizes = 20;

using base::divide_up;
constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return divide_up(n, multiple) * multiple;
}

/// One dimension of a part of a correlation: every `stride`-th pixel and tap.
struct PartOfLine {
  std::int64_t first_tap, tap_step;
  std::int64_t first_pixel, pixels;  ///< of the larger images, those that the stride steps over
  std::int64_t before;               ///< pixels of the input's padding that the first tile reads

  /// `size` is that of the larger images.
  PartOfLine(std::int64_t part, std::int64_t stride, bool transposed, std::int64_t size,
             std::int64_t padding)
      : first_tap(part), tap_step(stride) {
    const std::int64_t taps = divide_up(kTaps - part, stride);
    first_pixel = (part + padding) % stride;
    pixels = divide_up(size - first_pixel, stride);
    before = (first_pixel + padding - part) / stride;
    if (!transposed) return;
    first_tap = part + stride * (taps - 1);
    tap_step = -stride;
    before = taps - 1 - before;
  }
};

/// One dimension of a region of tiles.
struct TilesOfLine {
  std::int64_t first, count;
  int missing;  ///< pixels that a tile has less than a whole one
};

/// Part of a correlation: one with stride 1 of some of the pixels with some of the taps, in a
/// region of tiles.
struct PartOfCorrelation {
  const Filter& filter;
  PartOfLine rows, columns;
  TilesOfLine tile_rows, tile_columns;
  std::int64_t first_matrix;  ///< of the transformed weights
};

/// Correlation of images [n, h, w, channels] with 3x3 weights to images [n, oh, ow, outputs]: a
/// convolution, or, transposed, the gradient of its input.
///
/// With stride 2, pixels at even distances from the padded corner meet the taps 0 and 2 of a
/// dimension, the others tap 1. So a convolution is the sum of four correlations with stride 1 of
/// every second pixel, with 2x2, 2x1, 1x2 and 1x1 taps: 25 + 20 + 20 + 16 products for 4x4 pixels
/// instead of 144. In the gradient of the input each of the four gives every second pixel.
struct Correlation {
  std::int64_t n, h, w, channels;
  std::int64_t oh, ow, outputs;
  std::int64_t pad_h, pad_w;  ///< of the convolution
  std::int64_t stride;
  bool transposed;

  std::int64_t parts() const { return stride * stride; }
  /// Regions have tiles of the same size: the first the whole ones, the others those in which
  /// lines, columns or both end, if they are smaller. The first has at least a quarter of all
  /// tiles.
  static constexpr std::int64_t kRegions = 4;
  PartOfCorrelation part(std::int64_t number, std::int64_t region = 0) const {
    const TilesOfLine tile_rows = region_of_line(oh, region / 2);
    const TilesOfLine tile_columns = region_of_line(ow, region % 2);
    const std::int64_t i = number / stride, j = number % stride;
    const Kernels& kernels = winograd_kernels();
    std::int64_t matrices = 0;
    for (std::int64_t k = 0; k < number; ++k) matrices += kernels.parts[k / 2][k % 2].matrices;
    return {
        stride == 1 ? kernels.whole[tile_rows.missing][tile_columns.missing] : kernels.parts[i][j],
        {i, stride, transposed, transposed ? oh : h, pad_h},
        {j, stride, transposed, transposed ? ow : w, pad_w},
        tile_rows,
        tile_columns,
        matrices};
  }
  /// The most positions that a part has.
  std::int64_t positions() const { return part(0).filter.positions; }

  std::int64_t tiles() const { return n * tiles_of_line(oh) * tiles_of_line(ow); }
  std::int64_t tiles(std::int64_t region) const {
    return n * region_of_line(oh, region / 2).count * region_of_line(ow, region % 2).count;
  }
  /// The images that a part reads its tiles from.
  Images<const float> inputs(const PartOfCorrelation& part, const float* data) const {
    auto images =
        transposed ? whole(part, data, h, w, channels) : strided(part, data, h, w, channels);
    images.pad_h += part.rows.before;
    images.pad_w += part.columns.before;
    return images;
  }
  /// Those that it writes tiles to, or whose gradient it reads.
  template <class T>
  Images<T> results(const PartOfCorrelation& part, T* data) const {
    return transposed ? strided(part, data, oh, ow, outputs) : whole(part, data, oh, ow, outputs);
  }

 private:
  std::int64_t tiles_of_line(std::int64_t size) const {
    return divide_up(size, kTile * (transposed ? stride : 1));
  }
  /// The whole tiles of a line of pixels, or the one in which it ends.
  TilesOfLine region_of_line(std::int64_t size, bool end) const {
    const std::int64_t count = tiles_of_line(size), missing = round_up(size, kTile) - size;
    const bool smaller =
        stride == 1 && missing > 0 && size > kTile && tiles() >= kFewestTilesOfSizes;
    if (end) return {count - 1, smaller, static_cast<int>(std::min<std::int64_t>(missing, 2))};
    return {0, count - smaller, 0};
  }
  template <class T>
  Images<T> whole(const PartOfCorrelation& part, T* data, std::int64_t height, std::int64_t width,
                  std::int64_t depth) const {
    const std::int64_t line = width * depth;
    return {data,
            height,
            width,
            height * line,
            line,
            depth,
            part.tile_rows.count,
            part.tile_columns.count,
            -part.tile_rows.first * kTile,
            -part.tile_columns.first * kTile};
  }
  template <class T>
  Images<T> strided(const PartOfCorrelation& part, T* data, std::int64_t height, std::int64_t width,
                    std::int64_t depth) const {
    Images<T> images = whole(part, data, height, width, depth);
    images.data +=
        part.rows.first_pixel * images.line_stride + part.columns.first_pixel * images.pixel_stride;
    images.h = part.rows.pixels;
    images.w = part.columns.pixels;
    images.line_stride *= stride;
    images.pixel_stride *= stride;
    return images;
  }
};

/// What a slice of a correlation works on: so many tiles and outputs, at most.
struct BlockSize {
  std::int64_t tiles, outputs;
  /// Slices transform their weights themselves, and then go through many tiles; else all weights
  /// are transformed first.
  bool own_weights = false;
};

/// The epilogue is that of a convolution; the gradient of its input has none. No bit depends on the
/// size of the blocks.
void correlate(const Correlation& shape, const float* images, const Taps<const float>& taps,
               const Epilogue& epilogue, float* result, const BlockSize& size);

/// The gradient of the weights of correlate() that is not transposed, written densely in the order
/// of `taps`, whose channels or taps are consecutive.
void weight_gradient(const Correlation& shape, const float* images, const float* gradient,
                     const Taps<float>& taps);

/// What the next tiles read, for products to ask for: these leave the memory idle, and the pieces
/// that a tile reads are too short for processors to foresee.
class ReadAhead {
 public:
  /// Adds the pixels of tiles of results, or of what is read along with them, which otherwise wait
  /// for their lines.
  void add(const Images<const float>& results, const Part& tiles) { add(results, tiles, 1, 1); }
  /// The pixels that tiles of a part read, but for those that tiles of its region before them do.
  void add(const Images<const float>& inputs, const Part& tiles, const PartOfCorrelation& part) {
    add(inputs, tiles, part.filter.taps_h, part.filter.taps_w);
  }
  void during(Products& products) const {
    products.ahead = pieces_.data();
    products.pieces_ahead = pieces_count_;
    products.lines_ahead = lines_;
  }

  /// All that is added may have so many pixels; so many have a tile's inputs and results.
  static constexpr std::int64_t kMostPixels = 2304;
  static constexpr std::int64_t kInputPixels = (kTile + kTaps - 1) * (kTile + kTaps - 1);
  static constexpr std::int64_t kResultPixels = kTile * kTile;

 private:
  void add(const Images<const float>& images, const Part& tiles, std::int64_t taps_h,
           std::int64_t taps_w);

  std::array<Lines, kMostPixels> pieces_;
  std::int64_t pieces_count_ = 0, lines_ = 0;
};

/// Rounds up to an odd number of cache lines. Streams that advance together at such distances lie
/// in different sets of the caches.
constexpr std::int64_t odd_lines(std::int64_t floats) { return (((floats + 15) / 16) | 1) * 16; }

/// A place for transformed tiles of as many channels, in whole vectors.
struct Buffer {
  std::int64_t positions, tile_stride, position_stride;

  Buffer(std::int64_t positions, std::int64_t tiles, std::int64_t channels)
      : positions(positions),
        tile_stride(round_up(channels, 16)),
        position_stride(odd_lines(tiles * tile_stride)) {}
  std::int64_t numel() const { return positions * position_stride; }
  Transformed at(float* data) const { return {data, position_stride, tile_stride}; }
};

}  // namespace facula::cpu::winograd
