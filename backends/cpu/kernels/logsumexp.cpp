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

// Powers are added about a greatest element that is known from the first ones, while the others are
// looked through for greater ones. Where one is much greater, what came with it is added once more.

/// How much greater: sums up to e^kFar times as large cost no digits, differences of so much few.
template <class T>
constexpr T kFar = T(8);

/// e^x for x <= kFar and, if kInfinite, infinity.
template <bool kInfinite, class T>
[[gnu::always_inline]] inline T power(T x) {
  return kInfinite && x > kFar<T> ? x : power_of_any(x);
}

/// The sum of a block of a row, whose maximum becomes `top`.
template <bool kInfinite, class T>
T sum_of_block(const T* x, std::int64_t n, T shift, T& top) {
  if (kInfinite || n < kLongRow) {
    top = row_max(x, n);
    return row_sum<T>(
        n, [=](std::int64_t k) FACULA_INLINED { return power<kInfinite>(x[k] - shift); });
  }
  RowLanes<true, T> lanes(x[0]);
  const auto ask = [&](std::int64_t k) FACULA_INLINED { prefetch_lanes(x + k); };
  const std::int64_t k = lanes.add_many(n, x, shift, nullptr, x, ask, Vectors<T>());
  lanes.add_rest(n - k, x + k, shift, nullptr, x + k);
  top = join_lanes<kManyLanes>(lanes.tops, larger<T>);
  return join_lanes<kManyLanes>(lanes.sums, sum<T>);
}

template <class T>
void row(const T* x, std::int64_t n, T* shift, T* total) {
  constexpr std::int64_t kFirst = 64, kBlock = 4096;
  *shift = shift_of(row_max(x, n < kFirst ? n : kFirst));
  *total = T(0);
  for (; n > 0; n -= kBlock, x += kBlock) {
    const std::int64_t count = n < kBlock ? n : kBlock;
    T top, sum = sum_of_block<false>(x, count, *shift, top);
    if (top - *shift > kFar<T>) {
      const T next = shift_of(top);
      sum = top > kGreatest<T> ? sum_of_block<true>(x, count, next, top)
                               : sum_of_block<false>(x, count, next, top);
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

/// Sets `sum` to that of a tile's columns, in which no infinity is, and raises `tops`. Of the bound
/// `least` of powers compilers must not know that it is a constant: they would turn the comparison
/// round, after which it is no longer one instruction of AVX-512.
template <class T>
[[gnu::noipa]] void add_tile(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride,
                             const T* __restrict shift, T least, T* __restrict sum,
                             T* __restrict tops) {
  for (std::int64_t k = 0; k < n; ++k) sum[k] = T(0);
  for_many_rows<4, kRowsAhead>(x, rows, n, stride,
                               [&]<std::int64_t R>(const T* first, std::int64_t k) FACULA_INLINED {
                                 T total = T(0), top = tops[k];
#pragma GCC unroll 4
                                 for (std::int64_t r = 0; r < R; ++r) {
                                   const T own = first[r * stride + k];
                                   const T term = power_of(larger<T>(own - shift[k], least));
                                   total = r == 0 ? term : total + term;
                                   top = larger<T>(top, own);
                                 }
                                 sum[k] += total;
                                 tops[k] = top;
                               });
}

/// The same sum of whatever elements.
template <class T>
[[gnu::noinline]] void add_again(const T* x, std::int64_t rows, std::int64_t n, std::int64_t stride,
                                 const T* __restrict shift, T* __restrict sum) {
  for (std::int64_t k = 0; k < n; ++k) sum[k] = T(0);
  for (; rows > 0; --rows, x += stride) {
#pragma GCC unroll 1
    for (std::int64_t k = 0; k < n; ++k) sum[k] += power<true>(x[k] - shift[k]);
  }
}

/// Calls body(first, width) for cache lines of columns of which one has elements far above its
/// shift, and returns how many.
template <class T, class Body>
[[gnu::always_inline]] inline std::int64_t for_far_lines(std::int64_t n, const T* shift,
                                                         const T* tops, Body body) {
  std::int64_t lines = 0;
  for (std::int64_t first = 0; first < n; first += kLine<T>) {
    const std::int64_t width = n - first < kLine<T> ? n - first : kLine<T>;
    int far = 0;
    for (std::int64_t k = first; k < first + width; ++k) far |= tops[k] - shift[k] > kFar<T>;
    if (far) {
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
      far += for_far_lines(n, shift, tops, [&](std::int64_t k, std::int64_t width) {
        move_to(tops + k, width, shift + k, sum + k);
      });
    }
    add_tile(x, count, n, stride, shift, kLeastPower<T>, tile, tops);
    far += for_far_lines(n, shift, tops, [&](std::int64_t k, std::int64_t width) {
      move_to(tops + k, width, shift + k, sum + k);
      add_again(x + k, count, width, stride, shift + k, tile + k);
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
