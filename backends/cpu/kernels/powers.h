// Powers e^x for x <= 0 and the partial results of rows, of softmax and logsumexp. Included by
// kernel translation units only.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/ask_ahead.h"
#include "backends/cpu/kernels/lanes.h"
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

/// e^x for any x as a term of a sum.
[[gnu::always_inline]] inline float term_of(float x) { return scalar::detail::exp_term(x); }
[[gnu::always_inline]] inline double term_of(double x) { return scalar::exp(x); }

// Emulating fused multiply-adds makes powers too long for copies, and doubles' are anyway.
#if defined(__AVX2__)
template <class T>
constexpr bool kLanesInRegisters = std::is_same_v<T, float>;
/// e^(x - shift) of a vector.
[[gnu::always_inline]] inline Vec<float>::Raw terms_of(const float* x, Vec<float>::Raw shift) {
  return scalar::detail::exp_term(Lanes(Vec<float>::load(x) - shift)).raw;
}
#else
template <class T>
constexpr bool kLanesInRegisters = false;
#endif
template <class T, int Count = kManyLanes>
using Vectors = std::make_integer_sequence<int, Count / Vec<T>::kWidth>;

/// terms[i] = e^(x[i] - shift[i]) for `Count` elements, whole vectors.
template <int Count, class T>
[[gnu::always_inline]] inline void compute_terms(const T* x, const T* shift, T* terms) {
  if constexpr (kLanesInRegisters<T>) {
    using V = Vec<T>;
    for (int i = 0; i < Count; i += V::kWidth) {
      V::store(terms + i, terms_of(x + i, V::load(shift + i)));
    }
  } else {
#pragma GCC unroll 1  // not before it is vectorised
    for (int i = 0; i < Count; ++i) terms[i] = term_of(x[i] - shift[i]);
  }
}

/// Adds the terms of n elements, less the last ones that are fewer than kSums, and returns of how
/// many. Calls before(k) ahead of each kSums.
template <int kSums, class T, class Before, int... I>
[[gnu::always_inline]] inline std::int64_t add_terms(const T* x, std::int64_t n, T shift, T* lanes,
                                                     Before before,
                                                     std::integer_sequence<int, I...>) {
  using V = Vec<T>;
  const typename V::Raw shifts = V::all(shift);
  typename V::Raw sums[] = {V::load(lanes + I * V::kWidth)...};
  std::int64_t k = 0;
  for (; k + kSums <= n; k += kSums) {
    before(k);
    ((sums[I] = V::add(sums[I], terms_of(x + k + I * V::kWidth, shifts))), ...);
  }
  (V::store(lanes + I * V::kWidth, sums[I]), ...);
  return k;
}

/// The sum of e^(x[k] - shift), with the bits of row_sum().
template <int kSums, class T, class Before>
[[gnu::always_inline]] inline T sum_of_terms(const T* x, std::int64_t n, T shift, Before before) {
  if constexpr (kLanesInRegisters<T>) {
    T lanes[kSums] = {};
    std::int64_t k = add_terms<kSums>(x, n, shift, lanes, before, Vectors<T, kSums>());
    const auto nothing = [](std::int64_t) {};
    T* rest = lanes;
    for (; k + kFewLanes <= n; k += kFewLanes, rest += kFewLanes) {
      add_terms<kFewLanes>(x + k, kFewLanes, shift, rest, nothing, Vectors<T, kFewLanes>());
    }
    if (k < n) {
      T last[kFewLanes];  // e^(-infinity) is 0
      for (int i = 0; i < kFewLanes; ++i) {
        last[i] = k + i < n ? x[k + i] : -std::numeric_limits<T>::infinity();
      }
      add_terms<kFewLanes>(last, kFewLanes, shift, rest, nothing, Vectors<T, kFewLanes>());
    }
    return join_lanes<kSums>(lanes, sum<T>);
  } else {
    return reduce_lanes<kSums>(
        n, T(0), [=](std::int64_t k) FACULA_INLINED { return term_of(x[k] - shift); }, sum<T>);
  }
}
template <class T, class Before>
[[gnu::always_inline]] inline T row_sum_of_terms(const T* x, std::int64_t n, T shift,
                                                 Before before) {
  return n < kLongRow ? sum_of_terms<kFewLanes>(x, n, shift, before)
                      : sum_of_terms<kManyLanes>(x, n, shift, before);
}

/// The partial results of a row that is summed while the next one is read.
template <bool kLog, class T>
struct RowLanes {
  T sums[kManyLanes] = {}, tops[kManyLanes];

  explicit RowLanes(T in_next) {
    for (T& lane : tops) lane = in_next;
  }

  /// Adds n elements less the last ones, which are fewer than kManyLanes, and returns how many.
  /// Calls before(k) ahead of each kManyLanes elements.
  template <class Before>
  [[gnu::always_inline]] std::int64_t add_many(std::int64_t n, const T* __restrict x, T top,
                                               T* __restrict powers, const T* __restrict next,
                                               Before before) {
    if constexpr (kLanesInRegisters<T>) {
      return add_in_registers(n, x, top, powers, next, before, Vectors<T>());
    } else {
      std::int64_t k = 0;
      for (; k + kManyLanes <= n; k += kManyLanes) {
        before(k);
        add<kManyLanes>(0, x + k, top, powers + k, next + k);
      }
      return k;
    }
  }

  /// Adds `Count` elements to the lanes from `lane` on.
  template <int Count>
  [[gnu::always_inline]] void add(int lane, const T* __restrict x, T top, T* __restrict powers,
                                  const T* __restrict next) {
#pragma GCC unroll 1  // not before it is vectorised
    for (int i = 0; i < Count; ++i) {
      const T power = kLog ? term_of(x[i] - top) : power_of_any(x[i] - top);
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

 private:
  /// Storing the lanes with every vector would take longer than the powers.
  template <class Before, int... I>
  [[gnu::always_inline]] std::int64_t add_in_registers(std::int64_t n, const T* __restrict x, T top,
                                                       T* __restrict powers,
                                                       const T* __restrict next, Before before,
                                                       std::integer_sequence<int, I...>) {
    using V = Vec<T>;
    using Raw = typename V::Raw;
    constexpr int kWidth = V::kWidth;
    const Raw all_top = V::all(top), least = V::all(kLeastPower<T>);
    Raw sum_of[] = {V::load(sums + I * kWidth)...}, top_of[] = {V::load(tops + I * kWidth)...};
    const auto add_vector = [&](std::int64_t k, Raw& total, Raw& largest) FACULA_INLINED {
      largest = V::max(V::load(next + k), largest);
      if constexpr (kLog) {
        total = V::add(total, terms_of(x + k, all_top));
      } else {
        T power[kWidth];
        V::store(power, V::max(least, V::load(x + k) - all_top));
#pragma GCC unroll 1  // not before it is vectorised
        for (int i = 0; i < kWidth; ++i) power[i] = power_of(power[i]);
        V::store(powers + k, V::load(power));
        total = V::add(total, V::load(power));
      }
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
