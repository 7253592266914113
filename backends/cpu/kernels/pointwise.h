// Products of rows of channels with small matrices: the arithmetic of 1x1 convolutions.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// out[i][j] = bias[j] + sum over k of x[i][k] * weights[k][j], for rows i of consecutive elements;
/// k ascending with a single partial sum, so that no cutting of the rows changes bits.
struct RowProduct {
  std::int64_t rows, inputs, outputs;
  const float* x;
  const float* packed_weights;  ///< from pack_weights()
  const float* bias;            ///< `outputs` values, or null
  float* out;
  /// Stores past the caches: `out` must be aligned to a cache line and `outputs` divisible by 16.
  bool stream;
};

/// sums[i][j] += sum over rows r of a[r][i] * b[r][j], r ascending.
struct RowCorrelation {
  std::int64_t rows, m, n;
  const float* a;
  const float* b;
  float* sums;  ///< m rows of padded(n) elements
};

struct PointwiseKernels {
  /// Elements of a row of n, filled up to whole vectors.
  std::int64_t (*padded)(std::int64_t n);
  /// Packs the matrix [inputs, outputs] whose element (k, j) is at weights[k * input_stride + j *
  /// output_stride] into inputs * padded(outputs) elements.
  void (*pack_weights)(const float* weights, std::int64_t input_stride, std::int64_t output_stride,
                       std::int64_t inputs, std::int64_t outputs, float* packed);
  void (*multiply)(const RowProduct& product);
  void (*correlate)(const RowCorrelation& correlation);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(PointwiseKernels, pointwise)
