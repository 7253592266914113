#include "backends/cpu/kernels/logsumexp.h"

#include <limits>

#include "backends/cpu/kernels/many_rows.h"
#include "backends/cpu/kernels/powers.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
constexpr T kGreatest = std::numeric_limits<T>::max();

/// What to subtract so that the greatest element becomes 0: a number, since infinity less infinity
/// is none.
template <class T>
[[gnu::always_inline]] inline T shift_of(T top) {
  top = top < -kGreatest<T> ? -kGreatest<T> : top;
  return top > kGreatest<T> ? kGreatest<T> : top;
}

/// e^x for x <= 0 and, if kInfinite, infinity.
template <bool kInfinite, class T>
[[gnu::always_inline]] inline T power(T x) {
  return kInfinite && x > T(0) ? x : power_of_any(x);
}

template <bool kInfinite, class T>
T sum_of_block(const T* __restrict x, std::int64_t n, T shift) {
  return row_sum<T>(n,
                    [=](std::int64_t k) FACULA_INLINED { return power<kInfinite>(x[k] - shift); });
}

/// The sum of a block that no infinity is in; `next_top` becomes the maximum of as many elements.
template <class T>
T sum_beside(const T* x, std::int64_t n, T shift, const T* next, T& next_top) {
  RowLanes<true, T> lanes(next[0]);
  const auto ask = [&](std::int64_t k) FACULA_INLINED { prefetch_lanes(x + n + k); };
  const std::int64_t k = lanes.add_many(n, x, shift, nullptr, next, ask, Vectors<T>());
  lanes.add_rest(n - k, x + k, shift, nullptr, next + k);
  next_top = join_lanes<kManyLanes>(lanes.tops, larger<T>);
  return join_lanes<kManyLanes>(lanes.sums, sum<T>);
}

/// A row is taken by blocks that stay in the nearest cache: one is summed while the next one is
/// read for its maximum.
template <class T>
void row(const T* x, std::int64_t n, T* shift, T* total) {
  constexpr std::int64_t kBlock = 1024;
  std::int64_t count = n < kBlock ? n : kBlock;
  T top = row_max(x, count), last_shift = -kGreatest<T>, sum = T(0);
  while (n > 0) {
    const T own_shift = shift_of(larger<T>(last_shift, top)), own_top = top;
    if (own_shift > last_shift) sum *= power_of_any(last_shift - own_shift);
    last_shift = own_shift;
    const T* const own = x;
    const std::int64_t own_count = count;
    x += count, n -= count;
    count = n < kBlock ? n : kBlock;
    const bool is_finite = own_top <= kGreatest<T>, beside = is_finite && count == own_count;
    if (is_finite && own_count >= kLongRow) {
      sum += sum_beside(own, own_count, own_shift, beside ? x : own, top);
    } else {
      sum += is_finite ? sum_of_block<false>(own, own_count, own_shift)
                       : sum_of_block<true>(own, own_count, own_shift);
    }
    if (n > 0 && !beside) top = row_max(x, count);
  }
  *shift = last_shift;
  *total = sum;
}

/// Rows that are read for the maxima of columns and then, in the second-level cache, for their
/// sums; meanwhile the next ones are asked for.
constexpr int kTileRows = 32;

template <bool kInfinite, class T>
void add_tile(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride,
              const T* __restrict shift, T* __restrict sum) {
  for_many_rows<kTileRows>(x, rows, n, stride,
                           [&]<std::int64_t R>(const T* first, std::int64_t k) FACULA_INLINED {
                             T total = power<kInfinite>(first[k] - shift[k]);
#pragma GCC unroll 4
                             for (std::int64_t r = 1; r < R; ++r) {
                               total += power<kInfinite>(first[r * stride + k] - shift[k]);
                             }
                             sum[k] += total;
                           });
}

template <class T>
void columns(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride,
             T* __restrict shift, T* __restrict sum) {
  for (std::int64_t k = 0; k < n; ++k) {
    shift[k] = -kGreatest<T>;
    sum[k] = T(0);
  }
  for (; rows > 0; rows -= kTileRows, x += kTileRows * stride) {
    const std::int64_t count = rows < kTileRows ? rows : kTileRows;
    T tops[kLogSumExpColumns];
    for (std::int64_t k = 0; k < n; ++k) tops[k] = shift[k];
    for_many_rows<0>(x, count, n, stride,
                     [&]<std::int64_t R>(const T* first, std::int64_t k) FACULA_INLINED {
                       T top = tops[k];
#pragma GCC unroll 4
                       for (std::int64_t r = 0; r < R; ++r) {
                         top = larger<T>(top, first[r * stride + k]);
                       }
                       tops[k] = top;
                     });
    int infinite = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      const T next = shift_of(tops[k]);
      infinite |= tops[k] > kGreatest<T>;
      sum[k] *= power_of_any(shift[k] - next);
      shift[k] = next;
    }
    infinite ? add_tile<true>(x, count, n, stride, shift, sum)
             : add_tile<false>(x, count, n, stride, shift, sum);
  }
}

template <class T>
void join(const T* shift, const T* sum, std::int64_t parts, std::int64_t stride, std::int64_t n,
          T* __restrict out) {
  constexpr std::int64_t kTogether = 64;
  for (std::int64_t first = 0; first < n; first += kTogether) {
    const std::int64_t width = n - first < kTogether ? n - first : kTogether;
    T tops[kTogether], totals[kTogether] = {};
    for (std::int64_t k = 0; k < width; ++k) tops[k] = shift[first + k];
    for (std::int64_t part = 1; part < parts; ++part) {
      const T* own = shift + part * stride + first;
      for (std::int64_t k = 0; k < width; ++k) tops[k] = larger<T>(tops[k], own[k]);
    }
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t own = part * stride + first;
      for (std::int64_t k = 0; k < width; ++k) {
        totals[k] += sum[own + k] * power_of_any(shift[own + k] - tops[k]);
      }
    }
    for (std::int64_t k = 0; k < width; ++k) out[first + k] = scalar::log(totals[k]) + tops[k];
  }
}

template <class T>
constexpr LogSumExpLoops<T> loops() {
  return {row<T>, columns<T>, join<T>};
}

}  // namespace

extern const LogSumExpKernels logsumexp_kernels = {loops<float>(), loops<double>()};

}  // namespace facula::cpu::FACULA_ISA
