// Powers e^x for x <= 0 and the partial results of rows, of softmax and logsumexp. Included by
// kernel translation units only.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/ask_ahead.h"
#include "backends/cpu/kernels/simd.h"
#include "backends/cpu/kernels/softmax.h"
#include "backends/cpu/kernels/stream_line.h"
#include "ops/schema/scalar.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Partial results of a row, the same number on every instruction set: equal bits. Long rows have
/// several vectors of them, so that none waits for the one before.
constexpr int kFewLanes = 16, kManyLanes = 64;
constexpr std::int64_t kLongRow = kSoftmaxLongRow;

template <int Lanes, class T, class Join>
[[gnu::always_inline]] inline T join_lanes(T* lanes, Join join) {
  if constexpr (Lanes == 1) {
    return lanes[0];
  } else {
    constexpr int kHalf = Lanes / 2;
    T joined[kHalf];
    for (int i = 0; i < kHalf; ++i) joined[i] = join(lanes[i], lanes[i + kHalf]);
    return join_lanes<kHalf>(joined, join);
  }
}

/// Joins term(k) for k < n.
template <int Lanes, class T, class Term, class Join>
[[gnu::always_inline]] inline T reduce_lanes(std::int64_t n, T first, Term term, Join join) {
  T lanes[Lanes];
  for (T& lane : lanes) lane = first;
  std::int64_t k = 0;
  for (; k + Lanes <= n; k += Lanes) {
#pragma GCC unroll 1  // not before it is vectorised
    for (int i = 0; i < Lanes; ++i) lanes[i] = join(lanes[i], term(k + i));
  }
  for (int i = 0; k < n; ++k, ++i) lanes[i] = join(lanes[i], term(k));
  return join_lanes<Lanes>(lanes, join);
}
template <class T, class Term, class Join>
[[gnu::always_inline]] inline T reduce_row(std::int64_t n, T first, Term term, Join join) {
  return n < kLongRow ? reduce_lanes<kFewLanes>(n, first, term, join)
                      : reduce_lanes<kManyLanes>(n, first, term, join);
}

/// The larger one, or either if one is NaN: that reaches the sum of the row's powers all the same.
template <class T>
constexpr auto larger = [](T a, T b) { return a < b ? b : a; };
template <class T>
constexpr auto sum = [](T a, T b) { return a + b; };

template <class T>
[[gnu::always_inline]] inline T row_max(const T* x, std::int64_t n) {
  return reduce_row(
      n, x[0], [&](std::int64_t k) { return x[k]; }, larger<T>);
}
template <class T, class Term>
[[gnu::always_inline]] inline T row_sum(std::int64_t n, Term term) {
  return reduce_row(n, T(0), term, sum<T>);
}

/// The least x that power_of() takes; powers of less are zero as well.
template <class T>
constexpr T kLeastPower = -std::numeric_limits<T>::infinity();
template <>
constexpr float kLeastPower<float> = -88.0f;  // here k is -127, for which `factor` is zero

/// e^x for x <= 0 as scalar::exp, but zero where that is no normal float, for half of the
/// operations. The reduction's error is less than what x - top lost to rounding.
[[gnu::always_inline]] inline float power_of(float x) { return scalar::exp_or_zero(x); }
[[gnu::always_inline]] inline double power_of(double x) { return scalar::exp(x); }

template <class T>
[[gnu::always_inline]] inline T power_of_any(T x) {
  return power_of(x < kLeastPower<T> ? kLeastPower<T> : x);
}

template <class T>
using Vectors = std::make_integer_sequence<int, kManyLanes / Vec<T>::kWidth>;
// Emulating fused multiply-adds makes powers too long for copies, and doubles' are anyway.
#if defined(FACULA_HAS_FMA)
template <class T>
constexpr bool kLanesInRegisters = std::is_same_v<T, float>;
#else
template <class T>
constexpr bool kLanesInRegisters = false;
#endif

/// The partial results of a row that is summed while the next one is read.
template <bool kLog, class T>
struct RowLanes {
  T sums[kManyLanes] = {}, tops[kManyLanes];

  explicit RowLanes(T in_next) {
    for (T& lane : tops) lane = in_next;
  }

  /// Adds n elements less the last ones, which are fewer than kManyLanes, and returns how many. The
  /// lanes are in registers meanwhile: storing them with every vector would take longer than the
  /// powers. Calls before(k) ahead of each kManyLanes elements.
  template <class Before, int... I>
  [[gnu::always_inline]] std::int64_t add_many(std::int64_t n, const T* __restrict x, T top,
                                               T* __restrict powers, const T* __restrict next,
                                               Before before, std::integer_sequence<int, I...>) {
    if constexpr (!kLanesInRegisters<T>) {
      std::int64_t k = 0;
      for (; k + kManyLanes <= n; k += kManyLanes) {
        before(k);
        add<kManyLanes>(0, x + k, top, powers + k, next + k);
      }
      return k;
    }
    using V = Vec<T>;
    using Raw = typename V::Raw;
    constexpr int kWidth = V::kWidth;
    const Raw minus_top = V::all(-top), least = V::all(kLeastPower<T>);
    Raw sum_of[] = {V::load(sums + I * kWidth)...}, top_of[] = {V::load(tops + I * kWidth)...};
    const auto add_vector = [&](std::int64_t k, Raw& total, Raw& largest) FACULA_INLINED {
      T power[kWidth];
      V::store(power, V::max(least, V::add(V::load(x + k), minus_top)));
#pragma GCC unroll 1  // not before it is vectorised
      for (int i = 0; i < kWidth; ++i) power[i] = power_of(power[i]);
      if constexpr (!kLog) V::store(powers + k, V::load(power));
      total = V::add(total, V::load(power));
      largest = V::max(V::load(next + k), largest);
    };
    std::int64_t k = 0;
    for (; k + kManyLanes <= n; k += kManyLanes) {
      before(k);
      (add_vector(k + I * kWidth, sum_of[I], top_of[I]), ...);
    }
    (V::store(sums + I * kWidth, sum_of[I]), ...);
    (V::store(tops + I * kWidth, top_of[I]), ...);
    return k;
  }

  /// Adds `Count` elements to the lanes from `lane` on.
  template <int Count>
  [[gnu::always_inline]] void add(int lane, const T* __restrict x, T top, T* __restrict powers,
                                  const T* __restrict next) {
#pragma GCC unroll 1  // not before it is vectorised
    for (int i = 0; i < Count; ++i) {
      const T power = power_of_any(x[i] - top);
      if constexpr (!kLog) powers[i] = power;
      sums[lane + i] += power;
    }
#pragma GCC unroll 1
    for (int i = 0; i < Count; ++i) tops[lane + i] = larger<T>(tops[lane + i], next[i]);
  }

  /// Adds the last elements of a row, fewer than kManyLanes.
  void add_rest(std::int64_t count, const T* x, T top, T* powers, const T* next) {
    int k = 0;
    for (; k + kFewLanes <= count; k += kFewLanes) {
      add<kFewLanes>(k, x + k, top, powers + k, next + k);
    }
    // As many as there are lanes, of which the others change nothing: exp(-infinity) is 0.
    constexpr T kNothing = -std::numeric_limits<T>::infinity();
    T x_lanes[kFewLanes], power_lanes[kFewLanes], next_lanes[kFewLanes];
    for (int i = 0; i < kFewLanes; ++i) {
      x_lanes[i] = k + i < count ? x[k + i] : kNothing;
      next_lanes[i] = k + i < count ? next[k + i] : kNothing;
    }
    add<kFewLanes>(k, x_lanes, top, power_lanes, next_lanes);
    if constexpr (kLog) return;
    for (int i = 0; k + i < count; ++i) powers[k + i] = power_lanes[i];
  }
};

/// Asks for what comes next in memory: among several streams, processors foresee too little.
template <class T>
[[gnu::always_inline]] inline void prefetch_lanes(const T* x) {
  for (int k = 0; k < kManyLanes; k += static_cast<int>(kLineBytes / sizeof(T))) {
    ask_both_levels(x + k);
  }
}

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
