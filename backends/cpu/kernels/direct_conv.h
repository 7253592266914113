// Register tiles of direct convolutions on channels_last images, where the elements of a pixel, and
// with them those of its neighbours to the right, are consecutive. Vectors lie along what a line
// has most closely packed; the other operand is broadcast straight from the image, so nothing is
// packed but the weights.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Weights as a matrix of `depth` rows of `lanes`, cut into panels of columns: the one that begins
/// at column i lies at i * depth, row after row, filled up with zeros to the panel's width.
struct WeightPanels {
  const float* data;
  std::int64_t depth, lanes;
};

/// A line of results, each a vector of lanes: result p = sum over segments s and elements e of
/// input[shift + offsets[s] + p * step + e] * row first_row[s] + e of the weights.
struct ConvLine {
  WeightPanels weights;
  std::int64_t pixels, step;
  std::int64_t segments, run;  ///< run: elements per segment
  const float* input;
  std::int64_t shift;
  const std::int64_t* offsets;
  const std::int64_t* first_row;
  const float* bias;  ///< for store only: a value for each column of the panels
  float* out;
  std::int64_t out_step;  ///< from one pixel's result to the next's
  bool stream = false;    ///< past the caches; whole vectors and aligned to them
};

/// Two lines of results, one below the other, of at most pair_lanes lanes: neighbouring lines see
/// the same lines of the image, so that each element loaded serves both. Line k of the image, at
/// input + k * row_step, meets kernel row k for the upper result if first <= k < end, and kernel
/// row k - 1 for the lower one if next_first <= k < next_end; first <= next_first and end <=
/// next_end.
struct ConvLinePair {
  WeightPanels weights;
  std::int64_t pixels, step;
  std::int64_t run;  ///< elements of a window in a line, rows of the weights per kernel row
  const float* input;
  std::int64_t shift, row_step;
  std::int64_t first, end, next_first, next_end;
  const float* bias;  ///< a value for each column of the panel
  float* out;
  float* next_out;
  std::int64_t out_step;
};

/// sums[e][lane] += scalars[y][p * step + e] * vectors[y][p * vector_step + lane] over all rows y
/// and pixels p. Gradients of weights, with a window's elements as one side and the gradient's
/// channels as the other.
struct OuterSums {
  const float* scalars;
  std::int64_t row_step, step;
  const float* vectors;
  std::int64_t vector_row_step, vector_step;
  std::int64_t rows, pixels;
  std::int64_t elements, lanes;
  float* sums;  ///< one row of padded_lanes(lanes) per element
};

/// Columns of the panel that begins where `lanes` lanes are left.
using PanelWidth = std::int64_t (*)(std::int64_t lanes);

/// Columns of all panels of so many lanes.
inline std::int64_t padded_lanes(PanelWidth width, std::int64_t lanes) {
  std::int64_t padded = 0;
  while (padded < lanes) padded += width(lanes - padded);
  return padded;
}

struct DirectConvLoops {
  /// Panels of weights whose results are stored, and those of others and of sums.
  PanelWidth stored_panel, panel;
  /// Writes bias + result to out.
  void (*store_line)(const ConvLine& line);
  void (*store_pair)(const ConvLinePair& pair);
  std::int64_t pair_lanes;
  /// Adds the results to out, where those of neighbouring pixels may overlap. Touches as many
  /// elements as the panels have columns.
  void (*add_line)(const ConvLine& line);
  void (*add_outer)(const OuterSums& sums);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(DirectConvLoops, direct_conv)
