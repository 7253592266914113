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

// Powers are added about a greatest element that is known from the first ones. Where a sum becomes
// so great that there must have been a much greater one, its maximum is looked for and what it sums
// is added once more.

/// How much greater: of terms e^kFar times as large as 1 sums lose no digits, and the differences
/// from the shift few.
template <class T>
constexpr T kFar = T(8);
/// Whether the sum of n terms about `shift` tells of a much greater element. About the greatest
/// number nothing is.
template <class T>
[[gnu::always_inline]] inline bool is_far(T sum, std::int64_t n, T shift) {
  constexpr T kPower = T(2980.958);  // e^kFar
  return sum > kPower + static_cast<T>(n) && shift < kGreatest<T>;
}

template <class T>
[[gnu::always_inline]] inline T sum_of_block(const T* x, std::int64_t n, T shift) {
  return row_sum_of_terms(x, n, shift,
                          [=](std::int64_t k) FACULA_INLINED { prefetch_lanes(x + k); });
}

/// The sum about its maximum, which `shift` becomes.
template <class T>
[[gnu::noinline]] T sum_again(const T* x, std::int64_t n, T& shift) {
  shift = shift_of(row_max(x, n));
  return sum_of_block(x, n, shift);
}

template <class T>
void row(const T* x, std::int64_t n, T* shift, T* total) {
  constexpr std::int64_t kFirst = 64, kBlock = 4096;
  *shift = shift_of(row_max(x, n < kFirst ? n : kFirst));
  *total = T(0);
  for (; n > 0; n -= kBlock, x += kBlock) {
    const std::int64_t count = n < kBlock ? n : kBlock;
    T sum = sum_of_block(x, count, *shift);
    if (is_far(sum, count, *shift)) {
      T next = *shift;
      sum = sum_again(x, count, next);
      *total *= power_of_any(*shift - next);
      *shift = next;
    }
    *total += sum;
  }
}

/// Rows that are added together, those in which maxima are looked for first, and how many before
/// their turn they are asked for.
constexpr std::int64_t kTileRows = 64, kFirstRows = 8;
constexpr int kRowsAhead = 4;

/// Raises `tops` to the maxima of a tile's columns.
template <class T>
void raise(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride, T* __restrict tops) {
  for_many_rows<4, kRowsAhead>(x, rows, n, stride,
                               [&]<std::int64_t R>(const T* first, std::int64_t k) FACULA_INLINED {
                                 T top = tops[k];
#pragma GCC unroll 4
                                 for (std::int64_t r = 0; r < R; ++r) {
                                   top = larger<T>(top, first[r * stride + k]);
                                 }
                                 tops[k] = top;
                               });
}

/// Sets `sum` to that of a tile's columns.
template <class T>
void add_tile(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride,
              const T* __restrict shift, T* __restrict sum) {
  for (std::int64_t k = 0; k < n; ++k) sum[k] = T(0);
  const auto add = [=]<int R>(const T* first, std::int64_t k) FACULA_INLINED {
    T total = term_of(first[k] - shift[k]);
#pragma GCC unroll 4
    for (int r = 1; r < R; ++r) total += term_of(first[r * stride + k] - shift[k]);
    sum[k] += total;
  };
  const auto add_line = [=]<int R>(const T* first, std::int64_t k) FACULA_INLINED {
    if constexpr (!kLanesInRegisters<T>) {
#pragma GCC unroll 1  // not before it is vectorised
      for (std::int64_t i = k; i < k + kLine<T>; ++i) add.template operator()<R>(first, i);
    } else {
      using V = Vec<T>;
      for (const std::int64_t end = k + kLine<T>; k < end; k += V::kWidth) {
        const auto shifts = V::load(shift + k);
        auto total = terms_of(first + k, shifts);
#pragma GCC unroll 4
        for (int r = 1; r < R; ++r) total += terms_of(first + r * stride + k, shifts);
        V::store(sum + k, V::add(V::load(sum + k), total));
      }
    }
  };
  for_many_lines<4, kRowsAhead>(x, rows, n, stride, add_line, add);
}

/// Calls body(first, width) for cache lines of columns of which far(k) says that their sums have
/// become too great, and returns how many.
template <class T, class Far, class Body>
[[gnu::always_inline]] inline std::int64_t for_far_lines(std::int64_t n, Far far, Body body) {
  std::int64_t lines = 0;
  for (std::int64_t first = 0; first < n; first += kLine<T>) {
    const std::int64_t width = n - first < kLine<T> ? n - first : kLine<T>;
    int any = 0;
    for (std::int64_t k = first; k < first + width; ++k) any |= far(k);
    if (any) {
      body(first, width);
      ++lines;
    }
  }
  return lines;
}

/// Sums about `tops` instead of `shift`.
template <class T>
[[gnu::noinline]] void move_to(const T* tops, std::int64_t n, T* __restrict shift,
                               T* __restrict sum) {
  for (std::int64_t k = 0; k < n; ++k) {
    const T next = shift_of(tops[k]);
    sum[k] *= power_of_any(shift[k] - next);
    shift[k] = next;
  }
}

template <class T>
void columns(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride,
             T* __restrict shift, T* __restrict sum) {
  T tops[kLogSumExpColumns], tile[kLogSumExpColumns];
  for (std::int64_t k = 0; k < n; ++k) {
    tops[k] = shift[k] = -kGreatest<T>;
    sum[k] = T(0);
  }
  raise(x, rows < kFirstRows ? rows : kFirstRows, n, stride, tops);
  move_to(tops, n, shift, sum);
  bool careful = false;  // since many columns had far greater elements than before
  for (; rows > 0; rows -= kTileRows, x += kTileRows * stride) {
    const std::int64_t count = rows < kTileRows ? rows : kTileRows;
    std::int64_t far = 0;
    if (careful) {
      raise(x, count, n, stride, tops);
      far += for_far_lines<T>(
          n, [&](std::int64_t k) { return shift_of(tops[k]) - shift[k] > kFar<T>; },
          [&](std::int64_t k, std::int64_t width) {
            move_to(tops + k, width, shift + k, sum + k);
          });
    }
    add_tile(x, count, n, stride, shift, tile);
    far += for_far_lines<T>(
        n, [&](std::int64_t k) { return is_far(tile[k], count, shift[k]); },
        [&](std::int64_t k, std::int64_t width) {
          raise(x + k, count, width, stride, tops + k);
          move_to(tops + k, width, shift + k, sum + k);
          add_tile(x + k, count, width, stride, shift + k, tile + k);
        });
    careful = far * kLine<T> * 4 > n;
    for (std::int64_t k = 0; k < n; ++k) sum[k] += tile[k];
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
