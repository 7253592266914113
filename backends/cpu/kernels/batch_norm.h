// Per-channel statistics and affine maps, for elements lying as rows of channels (channels_last and
// [N, C]) and as planes of one channel (contiguous [N, C, ...]).
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Coefficients of x * scale + shift, one per channel, and the bound of the relu that may follow:
/// min(max(y, 0), cap). NaN bounds nothing.
template <class T>
struct Affine {
  const T* scale;
  const T* shift;
  T cap = T(__builtin_nan(""));
};

template <class T>
struct BatchNormLoops {
  /// Mean and sum of squared deviations of each column of `rows` rows of n channels, `stride`
  /// elements apart.
  void (*stats_rows)(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride, T* mean,
                     T* deviation);
  /// The same of one plane of n elements; with `far`, it is asked for long before.
  void (*stats_plane)(const T* x, std::int64_t n, bool far, T* mean, T* deviation);
  /// out = x * scale + shift; with relu: that of x * scale + shift + residual, where residual may
  /// be null. For planes, `f` points to the coefficients of the plane's channel.
  void (*affine_rows)(const T* x, std::int64_t rows, std::int64_t n, Affine<T> f, T* out);
  void (*affine_plane)(const T* x, std::int64_t n, Affine<T> f, T* out);
  void (*affine_relu_rows)(const T* x, const T* residual, std::int64_t rows, std::int64_t n,
                           Affine<T> f, T* out);
  void (*affine_relu_plane)(const T* x, const T* residual, std::int64_t n, Affine<T> f, T* out);
  /// Sums of g and of g * (x - mean).
  void (*sums_rows)(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* mean,
                    T* sum_g, T* sum_gx);
  void (*sums_plane)(const T* g, const T* x, std::int64_t n, T mean, T* sum_g, T* sum_gx);
  /// The same with g = 0 where relu(x * scale + shift) is 0 or the cap. NaN lets g pass.
  void (*relu_sums_rows)(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* mean,
                         Affine<T> f, T* sum_g, T* sum_gx);
  void (*relu_sums_plane)(const T* g, const T* x, std::int64_t n, T mean, Affine<T> f, T* sum_g,
                          T* sum_gx);
  /// out = a * g + b * x + c.
  void (*combine_rows)(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* a,
                       const T* b, const T* c, T* out);
  void (*combine_plane)(const T* g, const T* x, std::int64_t n, T a, T b, T c, T* out);
  /// The same with g = 0 where relu(x * scale + shift) is 0 or the cap.
  void (*relu_combine_rows)(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* a,
                            const T* b, const T* c, Affine<T> f, T* out);
  void (*relu_combine_plane)(const T* g, const T* x, std::int64_t n, T a, T b, T c, Affine<T> f,
                             T* out);
};

struct BatchNormKernels {
  BatchNormLoops<float> f32;
  BatchNormLoops<double> f64;
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(BatchNormKernels, batch_norm)
