// Products of transformed tiles with transformed weights, or with each other, position by position.
// Included by winograd.cpp only.
#pragma once

#include <bit>
#include <utility>

#include "backends/cpu/kernels/ask_ahead.h"
#include "backends/cpu/kernels/simd.h"
#include "backends/cpu/kernels/winograd.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using namespace winograd;  // constants and parameter structs
using X = Vec<float>;
using Raw = X::Raw;
constexpr int kWidth = X::kWidth;

/// Vectors of a panel of columns, which dense rows are multiplied by together. The more, the fewer
/// loads; of 16 registers too few would be left for rows.
constexpr int kVectors = kVectorRegisters == 32 ? 4 : 2;
constexpr int kPanel = kVectors * kWidth;
constexpr std::int64_t kLineElements = 16;  ///< of a line of the caches
/// A tile of accumulators fills three quarters of the registers.
constexpr int kTileVectors = kVectorRegisters * 3 / 4;
/// Its rows, if it is so many vectors wide.
template <int V>
constexpr int kRows = kTileVectors / (V < 2 ? 2 : V);

/// What b is, and so how it is asked for.
///
/// With weights the rows of a are dense. They follow each other in memory in the order of their
/// use: a little ahead they are asked into the nearest cache, or, where they come from far away, a
/// panel ahead into the second level. That level waits for more lines at a time; the processor then
/// foresees the rest.
///
/// With tiles the columns of a are dense. Those of a and b follow each other by position: where
/// they come from far away, they are asked for a position ahead, of which two fit into the nearest
/// cache.
///
/// What is far is asked for a line with every step.
enum class Right { tiles, wide_tiles, far_tiles, weights, far_weights };

/// How far ahead weights are fetched if not a panel.
constexpr int kPrefetchDistance = 64 * kWidth;

/// R rows and V vectors of columns of one product. What is far is asked for from `next` on.
template <int R, int V, Right Kind>
[[gnu::always_inline]] inline void product_tile(const Products& p, const float* a, const float* b,
                                                float* c, [[maybe_unused]] const float* next) {
  constexpr bool kDenseRows = Kind == Right::weights || Kind == Right::far_weights;
  Raw sums[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[r][v] = X::zero();
  }
  const std::int64_t row_stride = kDenseRows ? p.a_row_stride : 1;
  const std::int64_t depth_stride = kDenseRows ? 1 : p.a_depth_stride;
  for (std::int64_t k = 0; k < p.depth; ++k, a += depth_stride, b += p.b_depth_stride) {
    if constexpr (Kind == Right::far_weights) ask_second_level(next);
    if constexpr (Kind == Right::far_tiles) __builtin_prefetch(next);
    if constexpr (Kind == Right::far_weights || Kind == Right::far_tiles) next += kLineElements;
    Raw right[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      right[v] = X::load(b + v * kWidth);
      if constexpr (Kind == Right::weights) __builtin_prefetch(b + v * kWidth + kPrefetchDistance);
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const Raw left = X::all(a[r * row_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = X::fma(left, right[v], sums[r][v]);
    }
  }
  const std::int64_t c_stride = p.c_row_stride;  // a copy, which the stores cannot change
  // Added at the end: that has smaller rounding errors than to start from the old sum.
  if (p.accumulate) {
    const float* from = c;
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r, from += c_stride) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = X::load(from + v * kWidth) + sums[r][v];
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r, c += c_stride) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) X::store(c + v * kWidth, sums[r][v]);
  }
}

template <int R, int V, Right Kind>
[[gnu::always_inline]] inline void some_rows(const Products& p, int rows, const float* a,
                                             const float* b, float* c, const float* next) {
  if constexpr (R > 1) {
    if (rows < R) return some_rows<R - 1, V, Kind>(p, rows, a, b, c, next);
  }
  product_tile<R, V, Kind>(p, a, b, c, next);
}

/// What to ask for ahead: the lines that the products are told, as many with every tile of a
/// product; and for tiles to ask for, what comes from far away.
class Ahead {
 public:
  explicit Ahead(const Products& p) : piece_(p.ahead), end_(p.ahead + p.pieces_ahead) {
    const std::int64_t panels = (p.columns + kPanel - 1) / kPanel;
    const std::int64_t positions = std::popcount(p.matrices) * p.sharing;
    const std::int64_t tiles =
        positions * panels * ((p.rows + kRows<kVectors> - 1) / kRows<kVectors>);
    at_once_ = (p.lines_ahead + tiles - 1) / tiles;
  }

  [[gnu::always_inline]] void ask() {
    for (std::int64_t wanted = at_once_; wanted > 0 && piece_ != end_; --wanted) {
      ask_second_level(piece_->first + done_ * kLineElements);
      if (++done_ < piece_->count) continue;
      ++piece_;
      done_ = 0;
    }
  }

  /// Elements that come from far away after these, and after those.
  void far(const float* first, std::int64_t count, const float* second = nullptr,
           std::int64_t second_count = 0) {
    far_ = {first, first + count};
    far_later_ = {second, second + second_count};
  }
  /// Where the next lines of them begin; null if all are on their way.
  const float* take_far(std::int64_t lines) {
    if (far_.first >= far_.end) far_ = std::exchange(far_later_, {});
    if (far_.first >= far_.end) return nullptr;
    return std::exchange(far_.first, far_.first + lines * kLineElements);
  }

 private:
  struct Elements {
    const float *first = nullptr, *end = nullptr;
  };

  const Lines *piece_, *end_;
  std::int64_t done_ = 0, at_once_;
  Elements far_, far_later_;
};

/// All rows of V vectors of columns.
template <int V, Right Kind>
void product_columns(const Products& p, const float* a, const float* b, float* c, Ahead& ahead) {
  constexpr int R = kRows<V>;
  const std::int64_t a_row_stride = p.a_row_stride;
  for (std::int64_t i = 0; i < p.rows; i += R, a += R * a_row_stride, c += R * p.c_row_stride) {
    ahead.ask();
    const float* next = ahead.take_far(p.depth);
    if constexpr (Kind == Right::far_tiles) {
      if (!next && i + R <= p.rows) {
        product_tile<R, V, Right::wide_tiles>(p, a, b, c, nullptr);
        continue;
      }
    }
    const int rows = static_cast<int>(p.rows - i < R ? p.rows - i : R);
    some_rows<R, V, Kind>(p, rows, a, b, c, next ? next : b);
  }
}

/// All rows of some columns, at most a panel.
template <Right Kind>
void product_panel(const Products& p, std::int64_t columns, const float* a, const float* b,
                   float* c, Ahead& ahead) {
  // Wider tiles are lower, and so read transformed tiles more often.
  if constexpr (Kind != Right::tiles) {
    if (columns > (kVectors - 1) * kWidth) {
      return product_columns<kVectors, Kind>(p, a, b, c, ahead);
    }
  }
  constexpr bool kTiles = Kind == Right::wide_tiles || Kind == Right::far_tiles;
  constexpr Right kNarrow = kTiles ? Right::tiles : Kind;
  for (; columns > kWidth; columns -= 2 * kWidth, b += 2 * kWidth, c += 2 * kWidth) {
    product_columns<2, kNarrow>(p, a, b, c, ahead);
  }
  if (columns > 0) product_columns<1, kNarrow>(p, a, b, c, ahead);
}

template <Right Kind>
void products_of(const Products& p) {
  Ahead ahead(p);
  for (std::uint64_t rest = p.matrices; rest; rest &= rest - 1) {
    const int matrix = std::countr_zero(rest), first = matrix * p.sharing;
    const float* b = p.b + matrix * p.b_matrix_stride;
    for (std::int64_t j = 0; j < p.columns; j += kPanel, b += p.b_panel_stride) {
      if constexpr (Kind == Right::far_weights) {
        ahead.far(b + p.b_panel_stride, p.depth * kPanel);
      } else if (Kind == Right::far_tiles && j == 0) {
        ahead.far(b + p.b_matrix_stride, p.depth * p.b_depth_stride,
                  p.a + (matrix + 1) * p.a_position_stride, p.depth * p.a_depth_stride);
      }
      for (int position = first; position < first + p.sharing; ++position) {
        const float* a = p.a + position * p.a_position_stride;
        float* c = p.c + position * p.c_position_stride + j;
        const std::int64_t columns = p.columns - j < kPanel ? p.columns - j : kPanel;
        product_panel<Kind>(p, columns, a, b, c, ahead);
      }
    }
  }
}

void products(const Products& p) {
  if (p.a_depth_stride == 1) {
    return p.far ? products_of<Right::far_weights>(p) : products_of<Right::weights>(p);
  }
  if (p.far) return products_of<Right::far_tiles>(p);
  p.wide ? products_of<Right::wide_tiles>(p) : products_of<Right::tiles>(p);
}

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
