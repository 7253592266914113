// Running sums of columns and rows, in double.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Columns that are summed together, at most.
constexpr std::int64_t kCumsumColumns = 1024;
/// Elements from which on rows have a loop of their own.
constexpr std::int64_t kCumsumLongRow = 64;

template <class T>
struct CumsumLoops {
  /// n columns of `rows` elements that are x_step and y_step apart. With `stream`, every row of y
  /// is aligned to a line of the cache and written past the caches.
  void (*columns)(const T* x, std::int64_t x_step, std::int64_t rows, std::int64_t n, T* y,
                  std::int64_t y_step, bool stream);
};

struct CumsumKernels {
  CumsumLoops<float> f32;
  CumsumLoops<double> f64;
  /// A row of n elements. With `stream`, y is aligned to a line of the cache and may be written
  /// past the caches. `wholes` tells that permutations of whole vectors take as long as shuffles
  /// of halves; the bits are the same.
  void (*row)(const float* x, std::int64_t n, float* y, bool stream, bool wholes);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(CumsumKernels, cumsum)
