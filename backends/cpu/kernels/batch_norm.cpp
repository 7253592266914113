#include "backends/cpu/kernels/batch_norm.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#define FACULA_INLINED __attribute__((always_inline))  // for lambdas

/// Columns, or partial sums of a plane, kept in registers; the same on every instruction set.
constexpr int kLanes = 64;

/// Calls body(first column, width) for blocks of columns; the common width is a constant, so that
/// the loops over it become vectors.
template <class Body>
[[gnu::always_inline]] inline void for_columns(std::int64_t n, Body body) {
  std::int64_t first = 0;
  for (; first + kLanes <= n; first += kLanes) body(first, kLanes);
  if (first < n) body(first, static_cast<int>(n - first));
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

template <class T>
void stats_rows(const T* x, std::int64_t rows, std::int64_t n, T* mean, T* deviation) {
  const T factor = T(1) / static_cast<T>(rows);
  for_columns(n, [&](std::int64_t first, int width) {
    T sum[kLanes] = {}, square[kLanes] = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * n + first;
      for (int i = 0; i < width; ++i) sum[i] += row[i];
    }
    for (int i = 0; i < width; ++i) sum[i] *= factor;
    // The rows of a slice are still in the cache.
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * n + first;
      for (int i = 0; i < width; ++i) {
        const T difference = row[i] - sum[i];
        square[i] += difference * difference;
      }
    }
    for (int i = 0; i < width; ++i) {
      mean[first + i] = sum[i];
      deviation[first + i] = square[i];
    }
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
[[gnu::always_inline]] inline T positive(T x) {
  return x <= T(0) ? T(0) : x;
}

template <class T>
void affine_relu_rows(const T* x, const T* residual, std::int64_t rows, std::int64_t n, Affine<T> f,
                      T* out) {
  if (residual) {
    for_rows(rows, n, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
      out[i] = positive(x[i] * f.scale[k] + f.shift[k] + residual[i]);
    });
  } else {
    for_rows(rows, n, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
      out[i] = positive(x[i] * f.scale[k] + f.shift[k]);
    });
  }
}

template <class T>
void affine_relu_plane(const T* x, const T* residual, std::int64_t n, Affine<T> f, T* out) {
  const T scale = *f.scale, shift = *f.shift;
  if (residual) {
    for (std::int64_t k = 0; k < n; ++k) out[k] = positive(x[k] * scale + shift + residual[k]);
  } else {
    for (std::int64_t k = 0; k < n; ++k) out[k] = positive(x[k] * scale + shift);
  }
}

/// Per column, the sums of g and g * (x - mean), where gradient(element, channel) gives g.
template <class T, class Gradient>
[[gnu::always_inline]] inline void sum_rows(const T* x, std::int64_t rows, std::int64_t n,
                                            const T* mean, T* sum_g, T* sum_gx, Gradient gradient) {
  for_columns(n, [&](std::int64_t first, int width) FACULA_INLINED {
    T total[kLanes] = {}, product[kLanes] = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      for (int i = 0; i < width; ++i) {
        const T g = gradient(r * n + first + i, first + i);
        total[i] += g;
        product[i] += g * (x[r * n + first + i] - mean[first + i]);
      }
    }
    for (int i = 0; i < width; ++i) {
      sum_g[first + i] = total[i];
      sum_gx[first + i] = product[i];
    }
  });
}

template <class T>
void sums_rows(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* mean, T* sum_g,
               T* sum_gx) {
  sum_rows(x, rows, n, mean, sum_g, sum_gx,
           [&](std::int64_t i, std::int64_t) FACULA_INLINED { return g[i]; });
}

template <class T>
void relu_sums_rows(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* mean,
                    Affine<T> f, T* sum_g, T* sum_gx) {
  sum_rows(x, rows, n, mean, sum_g, sum_gx, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
    return x[i] * f.scale[k] + f.shift[k] <= T(0) ? T(0) : g[i];
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
  const T scale = *f.scale, shift = *f.shift;
  auto masked = [&](std::int64_t k)
                    FACULA_INLINED { return x[k] * scale + shift <= T(0) ? T(0) : g[k]; };
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
    const T masked = x[i] * f.scale[k] + f.shift[k] <= T(0) ? T(0) : g[i];
    out[i] = a[k] * masked + b[k] * x[i] + c[k];
  });
}

template <class T>
void relu_combine_plane(const T* g, const T* x, std::int64_t n, T a, T b, T c, Affine<T> f,
                        T* out) {
  const T scale = *f.scale, shift = *f.shift;
  for (std::int64_t k = 0; k < n; ++k) {
    const T masked = x[k] * scale + shift <= T(0) ? T(0) : g[k];
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
