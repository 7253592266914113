#include "backends/cpu/kernels/batch_norm.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#define FACULA_INLINED __attribute__((always_inline))  // for lambdas

/// Partial sums of a plane, kept in registers; the same on every instruction set.
constexpr int kLanes = 64;

/// relu with an upper bound, and what it lets through of the gradient g of its result.
template <class T>
[[gnu::always_inline]] inline T rectified(T x, T cap) {
  x = x <= T(0) ? T(0) : x;
  return x >= cap ? cap : x;
}
template <class T>
[[gnu::always_inline]] inline T passed(T x, T cap, T g) {
  return (x <= T(0)) | (x >= cap) ? T(0) : g;
}

template <class T>
[[gnu::always_inline]] inline T join(T* lanes) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

/// Sum of term(k) over a plane.
template <class T, class Term>
[[gnu::always_inline]] inline T plane_sum(std::int64_t n, Term term) {
  T lanes[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] += term(k + i);
  }
  for (int i = 0; k < n; ++k, ++i) lanes[i] += term(k);
  return join(lanes);
}

/// Adds term(first + k, k) of every row to sums[k], where `first` is the row's first element. Whole
/// rows one after the other, so that memory is read in order; four at a time, so that the sums are
/// read and written less often.
template <class T, class Term>
[[gnu::always_inline]] inline void add_rows(std::int64_t rows, std::int64_t n, T* __restrict sums,
                                            Term term) {
  const std::int64_t fours = rows / 4 * 4;
  for (std::int64_t i = 0; i < fours * n; i += 4 * n) {
    for (std::int64_t k = 0; k < n; ++k) {
      sums[k] += (term(i, k) + term(i + n, k)) + (term(i + 2 * n, k) + term(i + 3 * n, k));
    }
  }
  for (std::int64_t i = fours * n; i < rows * n; i += n) {
    for (std::int64_t k = 0; k < n; ++k) sums[k] += term(i, k);
  }
}

template <class T>
void clear(T* sums, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) sums[k] = T(0);
}

template <class T>
void stats_rows(const T* __restrict x, std::int64_t rows, std::int64_t n, T* __restrict mean,
                T* __restrict deviation) {
  clear(mean, n);
  clear(deviation, n);
  add_rows(rows, n, mean, [&](std::int64_t i, std::int64_t k) FACULA_INLINED { return x[i + k]; });
  const T factor = T(1) / static_cast<T>(rows);
  for (std::int64_t k = 0; k < n; ++k) mean[k] *= factor;
  // The rows of a slice are still in the cache.
  add_rows(rows, n, deviation, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
    const T difference = x[i + k] - mean[k];
    return difference * difference;
  });
}

template <class T>
void stats_plane(const T* x, std::int64_t n, T* mean, T* deviation) {
  const T center = plane_sum<T>(n, [&](std::int64_t k) { return x[k]; }) / static_cast<T>(n);
  *mean = center;
  *deviation = plane_sum<T>(n, [&](std::int64_t k) { return (x[k] - center) * (x[k] - center); });
}

/// Calls body(element, channel) for rows of n channels.
template <class Body>
[[gnu::always_inline]] inline void for_rows(std::int64_t rows, std::int64_t n, Body body) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < n; ++k) body(r * n + k, k);
  }
}

template <class T>
void affine_rows(const T* x, std::int64_t rows, std::int64_t n, Affine<T> f, T* out) {
  for_rows(rows, n, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
    out[i] = x[i] * f.scale[k] + f.shift[k];
  });
}

template <class T>
void affine_plane(const T* x, std::int64_t n, Affine<T> f, T* out) {
  const T scale = *f.scale, shift = *f.shift;
  for (std::int64_t k = 0; k < n; ++k) out[k] = x[k] * scale + shift;
}

template <class T>
void affine_relu_rows(const T* x, const T* residual, std::int64_t rows, std::int64_t n, Affine<T> f,
                      T* out) {
  if (residual) {
    for_rows(rows, n, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
      out[i] = rectified(x[i] * f.scale[k] + f.shift[k] + residual[i], f.cap);
    });
  } else {
    for_rows(rows, n, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
      out[i] = rectified(x[i] * f.scale[k] + f.shift[k], f.cap);
    });
  }
}

template <class T>
void affine_relu_plane(const T* x, const T* residual, std::int64_t n, Affine<T> f, T* out) {
  const T scale = *f.scale, shift = *f.shift, cap = f.cap;
  if (residual) {
    for (std::int64_t k = 0; k < n; ++k)
      out[k] = rectified(x[k] * scale + shift + residual[k], cap);
  } else {
    for (std::int64_t k = 0; k < n; ++k) out[k] = rectified(x[k] * scale + shift, cap);
  }
}

/// Adds g and g * (x - mean) to two sums per column, where gradient(first + k, k) gives g; in the
/// order of add_rows.
template <class T, class Gradient>
[[gnu::always_inline]] inline void sum_rows(const T* __restrict x, std::int64_t rows,
                                            std::int64_t n, const T* __restrict mean,
                                            T* __restrict sum_g, T* __restrict sum_gx,
                                            Gradient gradient) {
  clear(sum_g, n);
  clear(sum_gx, n);
  const std::int64_t fours = rows / 4 * 4;
  for (std::int64_t i = 0; i < fours * n; i += 4 * n) {
    const std::int64_t j = i + n, l = i + 2 * n, m = i + 3 * n;
    for (std::int64_t k = 0; k < n; ++k) {
      const T g0 = gradient(i, k), g1 = gradient(j, k), g2 = gradient(l, k), g3 = gradient(m, k);
      const T center = mean[k];
      sum_g[k] += (g0 + g1) + (g2 + g3);
      sum_gx[k] += (g0 * (x[i + k] - center) + g1 * (x[j + k] - center)) +
                   (g2 * (x[l + k] - center) + g3 * (x[m + k] - center));
    }
  }
  for (std::int64_t i = fours * n; i < rows * n; i += n) {
    for (std::int64_t k = 0; k < n; ++k) {
      const T g = gradient(i, k);
      sum_g[k] += g;
      sum_gx[k] += g * (x[i + k] - mean[k]);
    }
  }
}

template <class T>
void sums_rows(const T* __restrict g, const T* __restrict x, std::int64_t rows, std::int64_t n,
               const T* __restrict mean, T* __restrict sum_g, T* __restrict sum_gx) {
  sum_rows(x, rows, n, mean, sum_g, sum_gx,
           [&](std::int64_t i, std::int64_t k) FACULA_INLINED { return g[i + k]; });
}

template <class T>
void relu_sums_rows(const T* __restrict g, const T* __restrict x, std::int64_t rows, std::int64_t n,
                    const T* __restrict mean, Affine<T> f, T* __restrict sum_g,
                    T* __restrict sum_gx) {
  const T* __restrict scale = f.scale;
  const T* __restrict shift = f.shift;
  const T cap = f.cap;
  sum_rows(x, rows, n, mean, sum_g, sum_gx, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
    return passed(x[i + k] * scale[k] + shift[k], cap, g[i + k]);
  });
}

template <class T>
void sums_plane(const T* g, const T* x, std::int64_t n, T mean, T* sum_g, T* sum_gx) {
  *sum_g = plane_sum<T>(n, [&](std::int64_t k) FACULA_INLINED { return g[k]; });
  *sum_gx = plane_sum<T>(n, [&](std::int64_t k) FACULA_INLINED { return g[k] * (x[k] - mean); });
}

template <class T>
void relu_sums_plane(const T* g, const T* x, std::int64_t n, T mean, Affine<T> f, T* sum_g,
                     T* sum_gx) {
  const T scale = *f.scale, shift = *f.shift, cap = f.cap;
  auto masked = [&](std::int64_t k)
                    FACULA_INLINED { return passed(x[k] * scale + shift, cap, g[k]); };
  *sum_g = plane_sum<T>(n, masked);
  *sum_gx =
      plane_sum<T>(n, [&](std::int64_t k) FACULA_INLINED { return masked(k) * (x[k] - mean); });
}

template <class T>
void combine_rows(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* a, const T* b,
                  const T* c, T* out) {
  for_rows(rows, n, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
    out[i] = a[k] * g[i] + b[k] * x[i] + c[k];
  });
}

template <class T>
void combine_plane(const T* g, const T* x, std::int64_t n, T a, T b, T c, T* out) {
  for (std::int64_t k = 0; k < n; ++k) out[k] = a * g[k] + b * x[k] + c;
}

template <class T>
void relu_combine_rows(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* a,
                       const T* b, const T* c, Affine<T> f, T* out) {
  for_rows(rows, n, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
    const T masked = passed(x[i] * f.scale[k] + f.shift[k], f.cap, g[i]);
    out[i] = a[k] * masked + b[k] * x[i] + c[k];
  });
}

template <class T>
void relu_combine_plane(const T* g, const T* x, std::int64_t n, T a, T b, T c, Affine<T> f,
                        T* out) {
  const T scale = *f.scale, shift = *f.shift, cap = f.cap;
  for (std::int64_t k = 0; k < n; ++k) {
    const T masked = passed(x[k] * scale + shift, cap, g[k]);
    out[k] = a * masked + b * x[k] + c;
  }
}

template <class T>
constexpr BatchNormLoops<T> loops() {
  return {stats_rows<T>,        stats_plane<T>,       affine_rows<T>,  affine_plane<T>,
          affine_relu_rows<T>,  affine_relu_plane<T>, sums_rows<T>,    sums_plane<T>,
          relu_sums_rows<T>,    relu_sums_plane<T>,   combine_rows<T>, combine_plane<T>,
          relu_combine_rows<T>, relu_combine_plane<T>};
}

}  // namespace

extern const BatchNormKernels batch_norm_kernels = {loops<float>(), loops<double>()};

}  // namespace facula::cpu::FACULA_ISA
