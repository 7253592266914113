#include "backends/cpu/kernels/extremes.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/ask_ahead.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <bool kGreatest, class T>
[[gnu::always_inline]] inline auto beats(T x, T best) {
  return kGreatest ? x > best : x < best;
}

/// The best elements so far, a lane for each of several lines, and the rounds they came in.
template <bool kGreatest, class T>
struct Best {
  static constexpr std::int64_t kLanes = kVectorBytes / sizeof(T);
  // Integers as wide as the elements: comparisons give these.
  using Round = std::conditional_t<sizeof(T) == 1, std::int8_t,
                                   std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>;
  typedef T Values __attribute__((vector_size(kVectorBytes)));
  typedef Round Rounds __attribute__((vector_size(kVectorBytes)));

  /// Rounds are counted anew after so many.
  static constexpr std::int64_t kMostRounds =
      sizeof(T) == 1 ? std::numeric_limits<Round>::max() : std::int64_t{1} << 24;
  static constexpr Round kBefore = -1;

  Values values;
  Rounds rounds = Rounds{} + kBefore;

  [[gnu::always_inline]] static Values load(const T* x) {
    Values values;
    __builtin_memcpy(&values, x, sizeof values);
    return values;
  }

  /// Lanes of `nan` in which x has NaN become other than zero.
  [[gnu::always_inline]] void add(Values x, Rounds round, Rounds& nan) {
    const auto better = beats<kGreatest>(x, values);
    values = better ? x : values;
    rounds = better ? round : rounds;
    if constexpr (std::is_floating_point_v<T>) nan = x != x ? Rounds{} + Round(1) : nan;
  }

  /// Sets places[i] to first + i * lane_step + round * round_step for every lane i that has found
  /// better since rounds were counted anew, which they are again. In vectors this takes longer.
  [[gnu::noinline]] void count_anew(std::int64_t first, std::int64_t lane_step,
                                    std::int64_t round_step, std::int64_t* places) {
#pragma GCC unroll 1
    for (std::int64_t i = 0; i < kLanes; ++i) {
      if (rounds[i] != kBefore) places[i] = first + i * lane_step + rounds[i] * round_step;
    }
    rounds = Rounds{} + kBefore;
  }
};

template <class Rounds>
[[gnu::always_inline]] inline bool any(const Rounds& nan) {
  const Rounds none = {};
  return __builtin_memcmp(&nan, &none, sizeof nan) != 0;
}

template <bool kGreatest, class T>
[[gnu::noinline]] std::int64_t place_one_by_one(const T* x, std::int64_t n, std::int64_t step) {
  T best = x[0];
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T own = x[i * step];
    if (own != own) return i;
    if (beats<kGreatest>(own, best)) best = own, place = i;
  }
  return place;
}

/// `n` elements of `lines` lines in turn, of which a round of kVectors vectors has `step`, a
/// multiple of `lines`. False if there is a NaN: then `places` are of no use.
template <bool kGreatest, int kVectors, class T>
bool places_in_turn(const T* x, std::int64_t n, std::int64_t lines, std::int64_t step,
                    std::int64_t* places, std::int64_t place_step, bool ask) {
  using B = Best<kGreatest, T>;
  constexpr std::int64_t kWidth = kVectors * B::kLanes;
  B best[kVectors];
  std::int64_t found[kWidth];  // positions among all n
  for (int v = 0; v < kVectors; ++v) best[v].values = B::load(x + v * B::kLanes);
  for (std::int64_t i = 0; i < kWidth; ++i) found[i] = i;
  typename B::Rounds nan = {};
  std::int64_t begin = 0;
  while (begin + kWidth <= n) {
    const std::int64_t rest = (n - begin - kWidth) / step + 1;
    const std::int64_t rounds = rest < B::kMostRounds ? rest : B::kMostRounds;
    typename B::Rounds round = {};
    const T* own = x + begin;
    for (std::int64_t r = 0; r < rounds; ++r, round += 1, own += step) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const T* next = own + v * B::kLanes;
        if (ask && v * kVectorBytes % 64 == 0) ask_second_level<4096>(next);  // once for each line
        best[v].add(B::load(next), round, nan);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t lane = v * B::kLanes;
      best[v].count_anew(begin + lane, 1, step, found + lane);
    }
    begin += rounds * step;
  }
  if (any(nan)) return false;
  for (std::int64_t line = 0; line < lines; ++line) {
    std::int64_t place = found[line];
    const auto meet = [&](std::int64_t other) {
      if (beats<kGreatest>(x[other], x[place]) || (x[other] == x[place] && other < place)) {
        place = other;
      }
    };
    for (std::int64_t i = line + lines; i < step; i += lines) meet(found[i]);
    for (std::int64_t i = begin + line; i < n; i += lines) {
      if (x[i] != x[i]) return false;
      meet(i);
    }
    places[line * place_step] = place / lines;
  }
  return true;
}

/// What all lanes, of which there are twice kDistance, give together, in every lane.
template <int kDistance, class V, class Join>
[[gnu::always_inline]] inline V joined_lanes(V lanes, Join join) {
  [&]<int... I>(std::integer_sequence<int, I...>) FACULA_INLINED {
    lanes = join(lanes, __builtin_shufflevector(lanes, lanes, (I ^ kDistance)...));
  }
  (std::make_integer_sequence<int, sizeof(V) / sizeof lanes[0]>());
  if constexpr (kDistance > 1) return joined_lanes<kDistance / 2>(lanes, join);
  return lanes;
}

/// The place of a row of few vectors: its extreme first, then where that is, without a branch that
/// depends on elements. False if there is a NaN.
template <bool kGreatest, class T>
bool place_in_short_row(const T* x, std::int64_t n, std::int64_t* place) {
  using B = Best<kGreatest, T>;
  using Round = typename B::Round;
  typename B::Rounds lane;
  for (std::int64_t i = 0; i < B::kLanes; ++i) lane[i] = static_cast<Round>(i);
  // The last vector overlaps the one before.
  const auto begin = [=](std::int64_t i) { return i + B::kLanes <= n ? i : n - B::kLanes; };
  typename B::Values best = B::load(x);
  typename B::Rounds nan = best != best;
  for (std::int64_t i = B::kLanes; i < n; i += B::kLanes) {
    const typename B::Values own = B::load(x + begin(i));
    best = beats<kGreatest>(own, best) ? own : best;
    nan |= own != own;
  }
  if (any(nan)) return false;
  best = joined_lanes<B::kLanes / 2>(best, [](auto one, auto other) FACULA_INLINED {
    return beats<kGreatest>(other, one) ? other : one;
  });
  const T extreme = best[0];
  typename B::Rounds first = typename B::Rounds{} + static_cast<Round>(n);
  for (std::int64_t i = 0; i < n; i += B::kLanes) {
    const typename B::Values own = B::load(x + begin(i));
    const typename B::Rounds at = lane + static_cast<Round>(begin(i));
    first = ((own == extreme) & (at < first)) ? at : first;
  }
  first = joined_lanes<B::kLanes / 2>(
      first, [](auto one, auto other) FACULA_INLINED { return other < one ? other : one; });
  *place = first[0];
  return true;
}

template <bool kGreatest, class T>
void rows(const T* x, std::int64_t x_step, std::int64_t rows, std::int64_t n, std::int64_t* places,
          std::int64_t place_step, bool ask) {
  constexpr std::int64_t kLanes = Best<kGreatest, T>::kLanes, kFew = 16 * kLanes;
  for (; rows > 0; --rows, x += x_step, places += place_step) {
    const bool found =
        n < kLanes       ? false
        : n >= kFew      ? places_in_turn<kGreatest, 4>(x, n, 1, 4 * kLanes, places, 1, ask)
        : sizeof(T) >= 4 ? place_in_short_row<kGreatest>(x, n, places)
                         : places_in_turn<kGreatest, 1>(x, n, 1, kLanes, places, 1, ask);
    if (!found) *places = place_one_by_one<kGreatest>(x, n, 1);
  }
}

/// At least as many columns as a vector has lanes.
template <bool kGreatest, class T>
void wide_columns(const T* x, std::int64_t x_step, std::int64_t rows, std::int64_t n,
                  std::int64_t* places, std::int64_t place_step) {
  using B = Best<kGreatest, T>;
  constexpr int kGroup = 8;  // rows
  B best[kExtremeColumns / B::kLanes];
  typename B::Rounds nan[kExtremeColumns / B::kLanes] = {};
  const std::int64_t vectors = (n + B::kLanes - 1) / B::kLanes;
  // The last vector begins among the columns of the one before.
  const auto column = [=](std::int64_t v) {
    return v + 1 < vectors ? v * B::kLanes : n - B::kLanes;
  };
  for (std::int64_t v = 0; v < vectors; ++v) best[v].values = B::load(x + column(v));
  std::int64_t found[kExtremeColumns] = {};
  for (std::int64_t begin = 0; begin < rows; begin += B::kMostRounds) {
    const std::int64_t end = rows - begin < B::kMostRounds ? rows : begin + B::kMostRounds;
    const auto add_rows = [&]<int kCount>(std::int64_t row) __attribute__((always_inline)) {
      const T* own = x + row * x_step;
      const auto first = static_cast<typename B::Round>(row - begin);
      for (std::int64_t v = 0; v < vectors; ++v) {
        const std::int64_t k = column(v);
        B kept = best[v];
        typename B::Rounds round = typename B::Rounds{} + first;
        for (int r = 0; r < kCount; ++r, round += 1) {
          __builtin_prefetch(own + (r + kGroup) * x_step + k, 0, 2);
          kept.add(B::load(own + r * x_step + k), round, nan[v]);
        }
        best[v] = kept;
      }
    };
    std::int64_t row = begin;
    for (; row + kGroup <= end; row += kGroup) add_rows.template operator()<kGroup>(row);
    for (; row < end; ++row) add_rows.template operator()<1>(row);
    for (std::int64_t v = 0; v < vectors; ++v) {
      best[v].count_anew(begin, 0, 1, found + column(v));
    }
  }
  for (std::int64_t v = 0; v < vectors; ++v) {
    for (std::int64_t i = 0; any(nan[v]) && i < B::kLanes; ++i) {
      const std::int64_t k = column(v) + i;
      if (nan[v][i]) found[k] = place_one_by_one<kGreatest>(x + k, rows, x_step);
    }
  }
  for (std::int64_t k = 0; k < n; ++k) places[k * place_step] = found[k];
}

template <bool kGreatest, class T>
void columns(const T* x, std::int64_t x_step, std::int64_t rows, std::int64_t n,
             std::int64_t* places, std::int64_t place_step, bool ask) {
  constexpr std::int64_t kLanes = Best<kGreatest, T>::kLanes;
  if (n >= kLanes) return wide_columns<kGreatest>(x, x_step, rows, n, places, place_step);
  const bool found =
      x_step == n && rows * n >= kLanes &&
      places_in_turn<kGreatest, 1>(x, rows * n, n, kLanes / n * n, places, place_step, ask);
  for (std::int64_t k = 0; !found && k < n; ++k) {
    places[k * place_step] = place_one_by_one<kGreatest>(x + k, rows, x_step);
  }
}

template <class T>
constexpr ExtremeLoopsOf<T> kLoops = {{rows<true, T>, columns<true, T>},
                                      {rows<false, T>, columns<false, T>}};

}  // namespace

extern const ExtremeKernels extreme_kernels = {kLoops<float>, kLoops<double>, kLoops<std::int32_t>,
                                               kLoops<std::int64_t>, kLoops<std::uint8_t>};

}  // namespace facula::cpu::FACULA_ISA
