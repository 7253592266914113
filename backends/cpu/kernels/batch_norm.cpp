#include "backends/cpu/kernels/batch_norm.h"

namespace facula::cpu::FACULA_ISA {
namespace {

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

template <class T>
void affine_rows(const T* x, std::int64_t rows, std::int64_t n, const T* scale, const T* shift,
                 T* out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < n; ++k) out[r * n + k] = x[r * n + k] * scale[k] + shift[k];
  }
}

template <class T>
void affine_plane(const T* x, std::int64_t n, T scale, T shift, T* out) {
  for (std::int64_t k = 0; k < n; ++k) out[k] = x[k] * scale + shift;
}

template <class T>
void sums_rows(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* mean, T* sum_g,
               T* sum_gx) {
  for_columns(n, [&](std::int64_t first, int width) {
    T total[kLanes] = {}, product[kLanes] = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* g_row = g + r * n + first;
      const T* x_row = x + r * n + first;
      for (int i = 0; i < width; ++i) {
        total[i] += g_row[i];
        product[i] += g_row[i] * (x_row[i] - mean[first + i]);
      }
    }
    for (int i = 0; i < width; ++i) {
      sum_g[first + i] = total[i];
      sum_gx[first + i] = product[i];
    }
  });
}

template <class T>
void sums_plane(const T* g, const T* x, std::int64_t n, T mean, T* sum_g, T* sum_gx) {
  *sum_g = plane_sum<T>(n, [&](std::int64_t k) { return g[k]; });
  *sum_gx = plane_sum<T>(n, [&](std::int64_t k) { return g[k] * (x[k] - mean); });
}

template <class T>
void combine_rows(const T* g, const T* x, std::int64_t rows, std::int64_t n, const T* a, const T* b,
                  const T* c, T* out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < n; ++k) {
      out[r * n + k] = a[k] * g[r * n + k] + b[k] * x[r * n + k] + c[k];
    }
  }
}

template <class T>
void combine_plane(const T* g, const T* x, std::int64_t n, T a, T b, T c, T* out) {
  for (std::int64_t k = 0; k < n; ++k) out[k] = a * g[k] + b * x[k] + c;
}

template <class T>
constexpr BatchNormLoops<T> loops() {
  return {stats_rows<T>, stats_plane<T>, affine_rows<T>,  affine_plane<T>,
          sums_rows<T>,  sums_plane<T>,  combine_rows<T>, combine_plane<T>};
}

}  // namespace

extern const BatchNormKernels batch_norm_kernels = {loops<float>(), loops<double>()};

}  // namespace facula::cpu::FACULA_ISA
