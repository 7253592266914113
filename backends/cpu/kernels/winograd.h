// Inner loops of convolutions by Winograd's minimal filtering: F(4x4, 3x3), and F(4x4, 2x2),
// F(4x4, 2x1), F(4x4, 1x2), F(4x4, 1x1), of which convolutions with 3x3 weights and stride 2 are
// made.
//
// Instead of 3x3 products per pixel, a tile of 4x4 pixels is computed from the 6x6 pixels it
// depends on: tile and weights are transformed to 6x6 values each, these are multiplied (and added
// up over channels) position by position, and the 36 sums are transformed back to 4x4 pixels: 36
// products instead of 144. The gradient of the weights is F(3x3, 4x4): 6x6 input pixels with 4x4
// pixels of the output's gradient give 3x3 weights. winograd_transforms.h derives the transforms.
//
// Where an image ends after one to three pixels of a tile, smaller tiles do: F(3, 3) has 5 points
// in place of 6 and F(2, 3) has 4. They are among the 6, so the transformed weights are the same.
//
// With two taps it is 5 points in place of 6. With one tap in a dimension nothing is transformed
// along it, and its 4 positions share one matrix of weights.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu::winograd {

/// Pixels of a tile of the output, and how far tiles are apart, in one dimension.
constexpr int kTile = 4;
/// The most channels that are transformed in one call.
constexpr int kMostChannels = 256;

/// Images cut into rows of tiles; every second pixel of larger images, for instance. Pixels outside
/// read as 0 and are not written.
template <class T>
struct Images {
  T* data;
  std::int64_t h, w;
  std::int64_t image_stride, line_stride, pixel_stride;
  std::int64_t tile_rows, tile_columns;
  std::int64_t pad_h, pad_w;  ///< the first tile begins at pixel (-pad_h, -pad_w), maybe inside
};

/// Some consecutive tiles of all images and some consecutive channels of them.
struct Part {
  std::int64_t first_tile, tiles;
  std::int64_t first_channel, channels;  ///< at most kMostChannels
};

/// Tiles in transformed shape: position p of channel c of tile t is at
/// data[p * position_stride + t * tile_stride + c]. Positions that share weights are consecutive.
struct Transformed {
  float* data;
  std::int64_t position_stride, tile_stride;
};

/// The taps of the weights as matrices [channels][outputs], the outputs at most a panel,
/// transformed to right-hand sides of products: matrix p of (c, k) is at data[p * matrix_stride +
/// c * panel + k].
struct Weights {
  const float* taps;
  std::int64_t tap_line_stride, tap_stride;  ///< to the tap below and to the next
  std::int64_t row_stride;
  std::int64_t channels, outputs;
  float* data;
  std::int64_t matrix_stride;
};

/// Cache lines that follow each other.
struct Lines {
  const float* first;
  std::int64_t count;
};

/// For each matrix m whose bit is set and each position p of the `sharing` ones from m * sharing:
/// c[p][i][j] = (accumulate ? c[p][i][j] : 0) + sum over k of a[p][i][k] * b[m][k][j]. Rows of b
/// and c are accessed in whole vectors.
struct Products {
  std::uint64_t matrices;
  int sharing;
  std::int64_t rows, columns, depth;
  const float* a;
  std::int64_t a_position_stride, a_row_stride, a_depth_stride;  ///< one of the last two is 1
  const float* b;
  std::int64_t b_matrix_stride, b_panel_stride, b_depth_stride;
  float* c;
  std::int64_t c_position_stride, c_row_stride;
  bool accumulate;
  bool far = false;              ///< b, and a if not weights, come from a last-level cache far away
  bool wide = false;             ///< whether tiles as b, not far, had better be read in wide rows
  const Lines* ahead = nullptr;  ///< what to ask the memory for meanwhile
  std::int64_t pieces_ahead = 0, lines_ahead = 0;
};

/// Sums of products [rows][columns], transformed to matrices of weight gradients.
struct WeightGradient {
  const float* data;
  std::int64_t matrix_stride, row_stride;
  std::int64_t rows, columns;
  float* taps;  ///< element (row, column) of the first tap: row * tap_row_stride + column
  std::int64_t tap_line_stride, tap_stride, tap_row_stride;
};

/// What becomes of pixels before they are stored. Of a convolution: pixel + bias, or with a scale
/// (pixel + bias) * scale + shift + residual, with relu limited to [0, cap]. Of the gradient of an
/// input: pixel + residual, with `rectified` the gradient of the relu that gave that. The residual
/// and what is rectified lie like the images; all others have a value per channel.
struct Epilogue {
  enum class Kind : std::uint8_t { bias, affine, gradient } kind = Kind::bias;
  const float* bias = nullptr;  ///< null: 0
  const float* scale = nullptr;
  const float* shift = nullptr;
  const float* residual = nullptr;   ///< null: 0
  const float* rectified = nullptr;  ///< null: all above 0
  bool relu = false;                 ///< NaN stays; false: no limits
  float cap = __builtin_nanf("");    ///< NaN: none
};

/// How pixels are stored: as usual, past the caches (in whole vectors at cache lines), or added to
/// those that are there.
enum class StoreMode : std::uint8_t { usual, stream, add };

/// The transforms for weights with some number of taps in each dimension.
struct Filter {
  int taps_h, taps_w;
  int positions;  ///< of a transformed tile of 4x4 pixels
  int matrices;   ///< of transformed weights: position p uses number p / (positions / matrices)
  std::uint64_t used;  ///< bit m: whether tiles have positions for matrix m; smaller ones lack some
  /// Tiles of pixels of the input to their transforms, channels up to whole vectors.
  void (*input)(const Images<const float>& from, const Part& part, const Transformed& to);
  /// Tiles of pixels of the output's gradient to the transform of the second factor of the
  /// weights' gradient.
  void (*gradient)(const Images<const float>& from, const Part& part, const Transformed& to);
  /// With `stream` the results bypass the caches. That needs whole vectors at cache lines.
  void (*weights)(const Weights& weights, bool stream);
  /// Sums of products to tiles of pixels. With StoreMode::add, for filters that are parts of a sum,
  /// the epilogue has no bias.
  void (*output)(const Transformed& from, const Epilogue& epilogue, const Part& part,
                 const Images<float>& to, StoreMode mode);
  void (*weight_gradient)(const WeightGradient& gradient);
};

struct Kernels {
  int vector;  ///< floats; buffers are accessed in whole vectors
  int panel;   ///< columns of a product that are computed together
  void (*products)(const Products& products);
  /// 3x3 taps, for tiles that have so many rows and columns less than 4.
  Filter whole[3][3];
  Filter parts[2][2];  ///< the parts of 3x3 taps at stride 2: every dimension has 2 taps or 1
};

}  // namespace facula::cpu::winograd

FACULA_DECLARE_KERNELS(winograd::Kernels, winograd)
