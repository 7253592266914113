// Sums of powers of rows and of columns, and their logarithms.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Columns that are summed together, at most.
constexpr std::int64_t kLogSumExpColumns = 2048;

/// A sum of e^x is kept as `sum` times e^shift: shift is an x that none is much greater than, or
/// the greatest or least number where that is infinite.
template <class T>
struct LogSumExpLoops {
  /// The sum of n elements.
  void (*row)(const T* x, std::int64_t n, T* shift, T* sum);
  /// Those of n columns of `rows` elements, `stride` apart.
  void (*columns)(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride, T* shift,
                  T* sum);
  /// The logarithms of n results, each the sum of `parts` that are `stride` apart.
  void (*join)(const T* shift, const T* sum, std::int64_t parts, std::int64_t stride,
               std::int64_t n, T* out);
};

struct LogSumExpKernels {
  LogSumExpLoops<float> f32;
  LogSumExpLoops<double> f64;
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(LogSumExpKernels, logsumexp)
