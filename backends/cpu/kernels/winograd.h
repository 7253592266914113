// Inner loops of convolutions by Winograd's minimal filtering F(4x4, 3x3).
//
// Instead of 3x3 products per pixel, a tile of 4x4 pixels is computed from the 6x6 pixels it
// depends on: tile and weights are transformed to 6x6 values each, these are multiplied (and added
// up over channels) position by position, and the 36 sums are transformed back to 4x4 pixels: 36
// products instead of 144. The gradient of the weights is F(3x3, 4x4): 6x6 input pixels with 4x4
// pixels of the output's gradient give 3x3 weights. winograd.cpp derives the transforms.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu::winograd {

/// Pixels of a tile of the output, and how far tiles are apart, in one dimension.
constexpr int kTile = 4;
/// Taps of the weights in one dimension.
constexpr int kTaps = 3;
/// Points at which the polynomials are evaluated in one dimension, one of them infinity.
constexpr int kPoints = kTile + kTaps - 1;
constexpr int kPositions = kPoints * kPoints;
/// The most channels that are transformed in one call.
constexpr int kMostChannels = 256;

/// Images [n, h, w, channels] cut into rows of tiles. Pixels outside read as 0 and are not written.
template <class T>
struct Images {
  T* data;
  std::int64_t h, w, channels;
  std::int64_t tile_rows, tile_columns;
  std::int64_t pad_h, pad_w;  ///< the first tile begins at pixel (-pad_h, -pad_w)
};

/// Some consecutive tiles of all images and some consecutive channels of them.
struct Part {
  std::int64_t first_tile, tiles;
  std::int64_t first_channel, channels;  ///< at most kMostChannels
};

/// Tiles in transformed shape: position p of channel c of tile t is at
/// data[p * position_stride + t * tile_stride + c].
struct Transformed {
  float* data;
  std::int64_t position_stride, tile_stride;
};

/// Weights as nine matrices [channels][outputs], the outputs at most a panel, transformed to
/// right-hand sides of products: position p of (c, k) is at data[p * position_stride + c * panel +
/// k].
struct Weights {
  const float* taps;
  std::int64_t tap_stride, row_stride;
  bool rotated;  ///< by 180 degrees, as the gradient of the input needs them
  std::int64_t channels, outputs;
  float* data;
  std::int64_t position_stride;
};

/// For each of the 36 positions p: c[p][i][j] = (accumulate ? c[p][i][j] : 0) + sum over k of
/// a[p][i][k] * b[p][k][j]. Rows of b and c are accessed in whole vectors.
struct Products {
  std::int64_t rows, columns, depth;
  const float* a;
  std::int64_t a_position_stride, a_row_stride, a_depth_stride;  ///< one of the last two is 1
  const float* b;
  std::int64_t b_position_stride, b_panel_stride, b_depth_stride;
  float* c;
  std::int64_t c_position_stride, c_row_stride;
  bool accumulate;
};

/// Sums of products [rows][columns] per position, transformed to nine matrices of weight gradients.
struct WeightGradient {
  const float* data;
  std::int64_t position_stride, row_stride;
  std::int64_t rows, columns;
  float* taps;  ///< tap t of (row, column): t * tap_stride + row * tap_row_stride + column
  std::int64_t tap_stride, tap_row_stride;
};

struct Kernels {
  int vector;  ///< floats; buffers are accessed in whole vectors
  int panel;   ///< columns of a product that are computed together
  /// Tiles of 6x6 pixels to the input's transform, channels up to whole vectors.
  void (*input)(const Images<const float>& from, const Part& part, const Transformed& to);
  /// Tiles of 4x4 pixels of the output's gradient to F(3x3, 4x4)'s transform of its second factor.
  void (*gradient)(const Images<const float>& from, const Part& part, const Transformed& to);
  /// Here and in output(), with `stream` the results bypass the caches. That needs whole vectors at
  /// cache lines.
  void (*weights)(const Weights& weights, bool stream);
  void (*products)(const Products& products);
  /// Sums of products to tiles of 4x4 pixels. `bias` has a value per channel of the images, or is
  /// null.
  void (*output)(const Transformed& from, const float* bias, const Part& part,
                 const Images<float>& to, bool stream);
  void (*weight_gradient)(const WeightGradient& gradient);
};

}  // namespace facula::cpu::winograd

FACULA_DECLARE_KERNELS(winograd::Kernels, winograd)
