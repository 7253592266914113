// Inner loops of depthwise convolutions on channels_last images: every channel is convolved with a
// kernel of its own, so that vectors lie along the channels and nothing is exchanged between lanes.
//
// A line of results reads several lines of the image, some pixels of each at a time. Processors
// do not foresee such a pattern, so the loops ask for what the next line will need: that makes
// them two to three times as fast where images come from memory.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Taps in a direction for which there is straight code.
constexpr std::int64_t kDepthwiseBlock = 3;

/// Widths of images whose lines can be narrow ones.
constexpr bool narrow_width(std::int64_t width) { return width == 4 || width == 7 || width == 8; }

/// Rows or columns of a kernel.
struct DepthwiseTaps {
  std::int64_t count = 0;
  const std::int64_t* offsets = nullptr;  ///< of the pixels that they meet, in image elements
  const std::int64_t* weights = nullptr;  ///< where their weights are
};

/// What to fetch while a pixel is worked on: `pixels` pixels in each of `lines` lines of the image.
struct DepthwiseAhead {
  std::int64_t distance = 0;  ///< elements from the first pixel of a window's place
  std::int64_t lines = 0, line = 0;
  std::int64_t pixels = 0, pixel = 0;
};

/// Neighbouring results with the same taps: result p = bias + sum over rows i and columns j of
/// input[shift + rows.offsets[i] + columns.offsets[j] + p * step] *
/// weights[rows.weights[i] + columns.weights[j]], in each of the channels.
struct DepthwiseLine {
  DepthwiseTaps rows{}, columns{};
  std::int64_t channels = 0, pixels = 0;
  const float* input = nullptr;
  std::int64_t shift = 0, step = 0;
  const float* weights = nullptr;
  const float* bias = nullptr;  ///< per channel, or null
  float* out = nullptr;
  std::int64_t out_step = 0;  ///< from one result to the next
  /// A whole line of the image, of a narrow_width(), with up to kDepthwiseBlock rows of three taps,
  /// which meet the pixel to the left of the result's, that pixel and the one to its right, or in
  /// the opposite order. Taps that meet nothing in the line are left out.
  bool narrow = false;
  /// The results bypass the caches. That needs whole vectors at cache lines.
  bool stream = false;
  DepthwiseAhead ahead{};
  std::int64_t out_ahead = 0;  ///< elements to the results of the next line
};

/// A block of at most kDepthwiseBlock x kDepthwiseBlock taps of a weight gradient: sums[i][j] +=
/// grad[y][p] * image[row][column] over lines y and pixels p of the gradient, with
/// row = first_row + y * row_stride + i * row_dilation, and columns alike. What lies outside of
/// the image counts as 0.
struct DepthwiseSums {
  std::int64_t rows = 0, columns = 0;  ///< taps
  std::int64_t channels = 0;
  const float* grad = nullptr;
  std::int64_t grad_line = 0;  ///< elements from one line to the next
  std::int64_t lines = 0, pixels = 0;
  std::int64_t pixel_step = 0;  ///< elements from one pixel to the next, in gradient and image
  const float* image = nullptr;
  const float* zeros = nullptr;  ///< a line of the image's width
  std::int64_t height = 0, width = 0;
  std::int64_t first_row = 0, row_stride = 0, row_dilation = 0;
  std::int64_t first_column = 0, column_stride = 0, column_dilation = 0;
  /// Pixels of the gradient for which all columns lie in the image.
  std::int64_t inner_begin = 0, inner_end = 0;
  float* sums = nullptr;
  std::int64_t sums_row_step = 0, sums_column_step = 0;
  DepthwiseAhead ahead{};
  std::int64_t grad_ahead = 0;  ///< elements to the pixels to fetch
};

struct DepthwiseLoops {
  void (*store_line)(const DepthwiseLine& line);
  void (*add_products)(const DepthwiseSums& sums);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(DepthwiseLoops, depthwise)
