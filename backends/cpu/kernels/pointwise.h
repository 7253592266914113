// Products of rows of channels with small matrices: the arithmetic of 1x1 convolutions, and of
// others tap by tap.
#pragma once

#include <span>

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// out[i][j] = bias[j] + sum over k of x[i][k] * weights[k][j], for rows i of consecutive elements
/// and some of the outputs j; k ascending with a single partial sum, so that no cutting of either
/// changes bits.
struct RowProduct {
  std::int64_t rows, inputs, outputs;
  std::int64_t first_output, end_output;  ///< where panels begin, or behind the last one
  const float* x;
  const float* packed_weights;  ///< panels
  const float* bias;            ///< `outputs` values, or null
  float* out;
  /// Stores past the caches: `out` must be aligned to a cache line and `outputs` divisible by 16.
  bool stream;
};

/// A tap of a convolution: a matrix, and where the rows lie that it multiplies.
struct PackedTap {
  const float* weights;  ///< panels, of all inputs and outputs
  std::int64_t offset;   ///< elements from x_rows
};

/// A panel of columns j from first_output on, of rows that go through the same taps:
/// out[out_rows[i]][j] = start + sum over taps and k of x[x_rows[i] + tap.offset + k] *
/// tap.weights[k][j], for some inputs k; tap after tap, k ascending, with a single partial sum. No
/// row of `out` comes twice.
struct TapsProduct {
  std::int64_t all_inputs, first_input, inputs;
  std::int64_t outputs, first_output;
  const float* x;
  std::span<const PackedTap> taps;
  const float* bias;  ///< `outputs` values, or null
  bool accumulate;    ///< start is what is in `out`, else the bias or 0
  float* out;
  std::span<const std::int64_t> x_rows, out_rows;  ///< elements from x and from out
};

/// Rows that will be read soon: some elements of each.
struct RowsAhead {
  const float* first = nullptr;
  std::int64_t step = 0, rows = 0, elements = 0;
};

/// sums[i][j] += sum over rows of a[row][i] * b[row][j], one row after the other. Rows come in runs
/// of the same length. All of them should stay in the second-level cache together: they are read
/// once for each tile of the sums, or packed first.
struct RowCorrelation {
  std::int64_t m, n;
  const float* a;
  const float* b;
  std::int64_t a_step, b_step;           ///< elements from row to row
  std::int64_t rows;                     ///< of each run
  std::span<const std::int64_t> a_runs;  ///< the first row of each run: elements from a
  std::span<const std::int64_t> b_runs;  ///< and from b
  float* sums;                           ///< m rows of padded(n) elements
  std::int64_t sums_step;                ///< elements from row to row
  RowsAhead next_a, next_b;              ///< are asked for meanwhile
  float* packed = nullptr;               ///< packed_size() elements, or null: nothing is packed
};

struct PointwiseKernels {
  /// Elements of a row of n, filled up to whole vectors.
  std::int64_t (*padded)(std::int64_t n);
  /// Columns of the next panel of packed weights when `left` are left, as of those before it. The
  /// panels follow each other, and each has a row of so many columns for every input; what is
  /// beyond the outputs is 0 (packed_taps.h).
  std::int64_t (*panel_columns)(std::int64_t left);
  void (*multiply)(const RowProduct& product);
  void (*multiply_taps)(const TapsProduct& product);
  void (*correlate)(const RowCorrelation& correlation);
  /// Elements that correlate() needs to pack so many rows of all runs; 0 where it is faster
  /// without.
  std::int64_t (*packed_size)(std::int64_t m, std::int64_t n, std::int64_t rows);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(PointwiseKernels, pointwise)
