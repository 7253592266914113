// Per-channel statistics and affine maps, for elements lying as rows of channels (channels_last and
// [N, C]) and as planes of one channel (contiguous [N, C, ...]).
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

template <class T>
struct BatchNormLoops {
  /// Mean and sum of squared deviations of each column of `rows` rows of n channels.
  void (*stats_rows)(const T* x, std::int64_t rows, std::int64_t n, T* mean, T* deviation);
  /// The same of one plane of n elements.
  void (*stats_plane)(const T* x, std::int64_t n, T* mean, T* deviation);
  /// out = x * scale + shift per channel; per plane.
  void (*affine_rows)(const T* x, std::int64_t rows, std::int64_t n, const T* scale, const T* shift,
                      T* out);
  void (*affine_plane)(const T* x, std::int64_t n, T scale, T shift, T* out);
  /// Sums of g and of g * (x - mean).
  void (*sums_rows)(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* mean,
                    T* sum_g, T* sum_gx);
  void (*sums_plane)(const T* g, const T* x, std::int64_t n, T mean, T* sum_g, T* sum_gx);
  /// out = a * g + b * x + c.
  void (*combine_rows)(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* a,
                       const T* b, const T* c, T* out);
  void (*combine_plane)(const T* g, const T* x, std::int64_t n, T a, T b, T c, T* out);
};

struct BatchNormKernels {
  BatchNormLoops<float> f32;
  BatchNormLoops<double> f64;
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(BatchNormKernels, batch_norm)
