#include "backends/cpu/kernels/batch_norm.h"

#include "backends/cpu/kernels/ask_ahead.h"
#include "backends/cpu/kernels/many_rows.h"

namespace facula::cpu::FACULA_ISA {
namespace {

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
  return ((x <= T(0)) | (x >= cap)) ? T(0) : g;
}

template <class T, int Lanes>
[[gnu::always_inline]] inline T join(T (&lanes)[Lanes]) {
  for (int width = Lanes / 2; width > 0; width /= 2) {
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

/// How far ahead of the loops memory is asked for: two tensors read at once are more than
/// processors foresee.
constexpr std::int64_t kAheadBytes = 4096;

/// Asks for the cache line this far behind `from`.
template <class T>
[[gnu::always_inline]] inline void ask_ahead(const T* from) {
  __builtin_prefetch(reinterpret_cast<const char*>(from) + kAheadBytes);
}

/// Calls body(k) for the columns of a row that reads from `streams`.
template <class T, class Body, class... Streams>
[[gnu::always_inline]] inline void for_columns(std::int64_t n, Body body,
                                               const Streams*... streams) {
  std::int64_t k = 0;
  for (; k + kLine<T> <= n; k += kLine<T>) {
    (ask_ahead(streams + k), ...);
#pragma GCC unroll 1  // not before it is vectorised
    for (std::int64_t i = k; i < k + kLine<T>; ++i) body(i);
  }
  for (; k < n; ++k) body(k);
}

/// Calls add<R>(first, k) for every column k of groups of R rows, `stride` elements apart, of which
/// the first begins with element `first`: one row, since memory is read fastest in its order, but
/// four that are shorter than a cache line.
template <class T, class Add, class... Streams>
[[gnu::always_inline]] inline void for_row_groups(std::int64_t rows, std::int64_t n,
                                                  std::int64_t stride, Add add,
                                                  const Streams*... streams) {
  constexpr std::int64_t kGroup = 4;
  std::int64_t row = 0;
  for (; n < kLine<T> && row + kGroup <= rows; row += kGroup) {
    for (std::int64_t k = 0; k < n; ++k) add.template operator()<kGroup>(row * stride, k);
  }
  for (; row < rows; ++row) {
    const std::int64_t first = row * stride;
    for_columns<T>(
        n, [&](std::int64_t k) FACULA_INLINED { add.template operator()<1>(first, k); },
        (streams + first)...);
  }
}

/// Adds term(first + k, k) of every row to sums[k], where `first` is the row's first element in x.
template <class T, class Term>
[[gnu::always_inline]] inline void add_rows(const T* __restrict x, std::int64_t rows,
                                            std::int64_t n, T* __restrict sums, Term term) {
  const auto add = [&]<std::int64_t R>(std::int64_t first, std::int64_t k) FACULA_INLINED {
    T sum = term(first, k);
#pragma GCC unroll 4
    for (std::int64_t r = 1; r < R; ++r) sum += term(first + r * n, k);
    sums[k] += sum;
  };
  for_row_groups<T>(rows, n, n, add, x);
}

template <class T>
void clear(T* sums, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) sums[k] = T(0);
}

/// The mean of n elements and their squared deviations from it, where `sum` and `squares` are those
/// of what they differ from `center` by.
template <class T>
[[gnu::always_inline]] inline void moments(T center, T sum, T squares, std::int64_t n, T& mean,
                                           T& deviation) {
  const T shift = sum / static_cast<T>(n), rest = squares - shift * sum;
  mean = center + shift;
  // Squares of finite elements may be too large, but are not NaN.
  const bool overflow = sum - sum == T(0) && squares - squares != T(0);
  deviation = overflow ? squares : rest < T(0) ? T(0) : rest;
}

/// An infinite mean is no center.
template <class T>
[[gnu::always_inline]] inline T center_of(T sum, std::int64_t n) {
  const T mean = sum / static_cast<T>(n);
  return mean - mean == T(0) ? mean : T(0);
}

/// So many that their sums stay in the nearest cache.
constexpr std::int64_t kColumnsTogether = 1024;

/// Statistics of at most kColumnsTogether columns, in one pass about the mean of the first eighth.
/// Whatever is in that, it is so near the mean of all that the squares add up to no more than nine
/// times the squared deviations, and taking the difference away costs few bits.
template <class T>
void stats_columns(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride,
                   T* __restrict mean, T* __restrict deviation) {
  const std::int64_t sample = rows < 32 ? rows : rows / 8;
  T centers[kColumnsTogether], sums[kColumnsTogether], squares[kColumnsTogether];
  clear(sums, n);
  for_many_rows<8, 8>(x, sample, n, stride,
                      [&]<std::int64_t R>(const T* first, std::int64_t k) FACULA_INLINED {
                        T sum = first[k];
#pragma GCC unroll 8
                        for (std::int64_t r = 1; r < R; ++r) sum += first[r * stride + k];
                        sums[k] += sum;
                      });
  for (std::int64_t k = 0; k < n; ++k) centers[k] = center_of(sums[k], sample);
  clear(sums, n);
  clear(squares, n);
  for_many_rows<8, 8>(x, rows, n, stride,
                      [&]<std::int64_t R>(const T* first, std::int64_t k) FACULA_INLINED {
                        T sum = T(0), square = T(0);
#pragma GCC unroll 8
                        for (std::int64_t r = 0; r < R; ++r) {
                          const T difference = first[r * stride + k] - centers[k];
                          sum += difference;
                          square += difference * difference;
                        }
                        sums[k] += sum;
                        squares[k] += square;
                      });
  for (std::int64_t k = 0; k < n; ++k) {
    moments(centers[k], sums[k], squares[k], rows, mean[k], deviation[k]);
  }
}

template <class T>
void stats_rows(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride, T* mean,
                T* deviation) {
  for (std::int64_t first = 0; first < n; first += kColumnsTogether) {
    const std::int64_t width = n - first < kColumnsTogether ? n - first : kColumnsTogether;
    stats_columns(x + first, rows, width, stride, mean + first, deviation + first);
  }
}

/// The same about the mean of the first eighth, which is in the nearest cache by then.
template <class T>
void stats_plane(const T* x, std::int64_t n, bool far, T* mean, T* deviation) {
  const std::int64_t sample = n < 8 * kLanes ? n : n / 8;
  constexpr int kHalf = kLanes / 2;  // twice as many would not fit the registers of AVX2
  const T center = center_of(plane_sum<T>(sample, [&](std::int64_t k) { return x[k]; }), sample);
  T sums[kHalf] = {}, squares[kHalf] = {};
  const auto add = [&](int i, std::int64_t k) FACULA_INLINED {
    const T difference = x[k] - center;
    sums[i] += difference;
    squares[i] += difference * difference;
  };
  std::int64_t k = 0;
  for (; k + kHalf <= n; k += kHalf) {
    for (int i = 0; i < kHalf; i += kLine<T>) {
      if (far) {
        ask_ahead(x + k + i);
        ask_second_level<2 * kAheadBytes>(x + k + i);
      } else {
        ask_second_level<2048>(x + k + i);
      }
    }
    for (int i = 0; i < kHalf; ++i) add(i, k + i);
  }
  for (int i = 0; k < n; ++k, ++i) add(i, k);
  moments(center, join(sums), join(squares), n, *mean, *deviation);
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

/// Adds g and g * (x - mean) to two sums per column, where gradient(first + k, k) gives g, made of
/// the elements of `from` and x.
template <class T, class Gradient>
[[gnu::always_inline]] inline void sum_rows(const T* __restrict from, const T* __restrict x,
                                            std::int64_t rows, std::int64_t n,
                                            const T* __restrict mean, T* __restrict sum_g,
                                            T* __restrict sum_gx, Gradient gradient) {
  clear(sum_g, n);
  clear(sum_gx, n);
  const auto add = [&]<std::int64_t R>(std::int64_t first, std::int64_t k) FACULA_INLINED {
    T sum = 0, products = 0;
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < R; ++r) {
      const std::int64_t i = first + r * n;
      const T g = gradient(i, k);
      sum += g;
      products += g * (x[i + k] - mean[k]);
    }
    sum_g[k] += sum;
    sum_gx[k] += products;
  };
  for_row_groups<T>(rows, n, n, add, from, x);
}

template <class T>
void sums_rows(const T* __restrict g, const T* __restrict x, std::int64_t rows, std::int64_t n,
               const T* __restrict mean, T* __restrict sum_g, T* __restrict sum_gx) {
  sum_rows(g, x, rows, n, mean, sum_g, sum_gx,
           [&](std::int64_t i, std::int64_t k) FACULA_INLINED { return g[i + k]; });
}

template <class T>
void relu_sums_rows(const T* __restrict g, const T* __restrict x, std::int64_t rows, std::int64_t n,
                    const T* __restrict mean, Affine<T> f, T* __restrict sum_g,
                    T* __restrict sum_gx) {
  const T* __restrict scale = f.scale;
  const T* __restrict shift = f.shift;
  const T cap = f.cap;
  sum_rows(g, x, rows, n, mean, sum_g, sum_gx, [&](std::int64_t i, std::int64_t k) FACULA_INLINED {
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
