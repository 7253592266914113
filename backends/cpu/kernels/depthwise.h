// Inner loops of depthwise convolutions on channels_last images: every channel is convolved with a
// kernel of its own, so that vectors lie along the channels and nothing is exchanged between lanes.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Rows or columns of a kernel.
struct DepthwiseTaps {
  std::int64_t count;
  const std::int64_t* offsets;  ///< of the pixels that they meet, in elements of the image
  const std::int64_t* weights;  ///< where their weights are
};

/// Neighbouring results with the same taps: result p = bias + sum over rows i and columns j of
/// input[shift + rows.offsets[i] + columns.offsets[j] + p * step] *
/// weights[rows.weights[i] + columns.weights[j]], in each of the channels.
struct DepthwiseLine {
  DepthwiseTaps rows, columns;
  std::int64_t channels, pixels;
  const float* input;
  std::int64_t shift, step;
  const float* weights;
  const float* bias;  ///< per channel, or null
  float* out;
  std::int64_t out_step;  ///< from one result to the next
  /// The results bypass the caches. That needs whole vectors at cache lines.
  bool stream;
};

/// A block of at most kDepthwiseBlock x kDepthwiseBlock taps of a weight gradient: sums[i][j] +=
/// grad[y][p] * image[row][column] over lines y and pixels p of the gradient, with
/// row = first_row + y * row_stride + i * row_dilation, and columns alike. What lies outside of
/// the image counts as 0.
struct DepthwiseSums {
  std::int64_t rows, columns;  ///< taps
  std::int64_t channels;
  const float* grad;
  std::int64_t lines, pixels;
  std::int64_t pixel_step;  ///< elements from one pixel to the next, in the gradient and the image
  const float* image;
  const float* zeros;  ///< a line of the image's width
  std::int64_t height, width;
  std::int64_t first_row, row_stride, row_dilation;
  std::int64_t first_column, column_stride, column_dilation;
  /// Pixels of the gradient for which all columns lie in the image.
  std::int64_t inner_begin, inner_end;
  float* sums;
  std::int64_t sums_row_step, sums_column_step;
};
constexpr std::int64_t kDepthwiseBlock = 3;

struct DepthwiseLoops {
  void (*store_line)(const DepthwiseLine& line);
  void (*add_products)(const DepthwiseSums& sums);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(DepthwiseLoops, depthwise)
