// Pooling windows. Positions are those of one image: for channels_last, [H, W, C] with all channels
// of a position together; for planes, [H, W] of one channel, which is the case C = 1.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"
#include "ops/schema/uneven_pool.h"

namespace facula::cpu {

/// The input positions of one window: rows first_row, first_row + row_step, ... (rows of them),
/// columns alike. All lie inside the image.
struct PoolWindow {
  std::int32_t first_row, rows, row_step;
  std::int32_t first_column, columns, column_step;
};

/// Windows of one line of results: window i begins at column first_column + i * stride.
struct PoolLine {
  std::int32_t first_row, rows, row_step;
  std::int32_t first_column, columns, column_step;
  std::int32_t stride, count;
  std::int32_t rows_below;  ///< lines of the image that the next results read first
  bool stream = false;      ///< past the caches; pixels begin with a line of the cache then
};

/// The windows over a line of an image, from some lines of results.
struct PoolLineWindows {
  std::int64_t width, out_width;
  std::int64_t rows;                     ///< lines of results
  std::int64_t kernel, stride, padding;  ///< along the line
  bool stream;  ///< past the caches; pixels begin with a line of the cache then
};

template <class T>
struct MaxPoolLoops {
  /// Maxima and their positions h * width + w of a line of windows, for `channels` channels.
  void (*max_line)(const T* image, std::int64_t width, std::int64_t channels, const PoolLine& line,
                   T* out, std::int32_t* index);
  /// Maxima of `count` lines of n maxima, of line `first` of `lines` on and going round, and their
  /// positions.
  void (*max_of_lines)(const T* values, const std::int32_t* positions, std::int64_t lines,
                       std::int64_t first, std::int64_t count, std::int64_t n, T* out,
                       std::int32_t* index);
  /// The gradient of the former with respect to a line of an image of at least 16 channels, whose
  /// first position is `first`: grad and index are those of the lines of windows over it. Where the
  /// line of `rectified`, which may be null, is not above 0, neither NaN, there is none. Returns
  /// how many of their maxima lie in the line.
  std::int64_t (*max_line_backward)(const T* grad, const std::int32_t* index, std::int64_t channels,
                                    const PoolLineWindows& windows, std::int64_t first,
                                    const T* rectified, T* out);
};

template <class T>
struct AvgPoolLoops {
  /// Sums of a line of windows, whose steps are 1, times scale.
  void (*average_line)(const T* image, std::int64_t width, std::int64_t channels,
                       const PoolLine& line, T scale, T* out);
  /// gradient[p][c] += grad[w][c] * scale for every position p of every window w.
  void (*average_line_backward)(const T* grad, std::int64_t width, std::int64_t channels,
                                const PoolLine& line, T scale, T* gradient);
  /// The sum of `rows` lines of n elements, one behind the other.
  void (*sum_lines)(const T* from, std::int64_t rows, std::int64_t n, T* out);
  /// The sums of windows over the positions of a line, for all channels.
  void (*sum_windows)(const T* line, std::int64_t channels, const AdaptiveWindow* windows,
                      std::int64_t count, T* out);
};

struct MaxPoolKernels {
  MaxPoolLoops<float> f32;
  MaxPoolLoops<double> f64;
};
struct AvgPoolKernels {
  AvgPoolLoops<float> f32;
  AvgPoolLoops<double> f64;
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(MaxPoolKernels, max_pool)
FACULA_DECLARE_KERNELS(AvgPoolKernels, avg_pool)
