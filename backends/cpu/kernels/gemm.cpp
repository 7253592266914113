#include "backends/cpu/kernels/gemm.h"

#include <utility>

#include "backends/cpu/kernels/simd.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// A tile of accumulators fills three quarters of the registers.
constexpr int kTile = kVectorRegisters * 3 / 4;
constexpr int kPanelRows = kTile / 2;
/// Rows, or vectors of a row, that are asked for before they are packed: processors do not foresee
/// short rows.
constexpr std::int64_t kPackedAhead = 8;

/// How many vectors wide a tile of `rows` rows is.
constexpr int tile_vectors(int rows) { return rows * 4 <= kTile ? 4 : 2; }

/// Exchanges the lanes of two rows that differ in bit D of their numbers: those of `low` with it
/// for those of `high` without.
template <class X, int D, std::size_t... I>
[[gnu::always_inline]] inline void exchange(typename X::Raw& low, typename X::Raw& high,
                                            std::index_sequence<I...>) {
  constexpr int kWidth = X::kWidth;
  const typename X::Raw first = low;
  low = __builtin_shufflevector(first, high, ((I & D) == 0 ? I : I - D + kWidth)...);
  high = __builtin_shufflevector(first, high, ((I & D) == 0 ? I + D : I + kWidth)...);
}

/// A square of vectors: bit after bit changes places between the numbers of rows and of lanes.
template <class X, int D = 1>
[[gnu::always_inline]] inline void transpose_square(typename X::Raw (&rows)[X::kWidth]) {
  if constexpr (D < X::kWidth) {
#pragma GCC unroll 16
    for (int i = 0; i < X::kWidth; ++i) {
      if ((i & D) == 0) {
        exchange<X, D>(rows[i], rows[i + D], std::make_index_sequence<X::kWidth>());
      }
    }
    transpose_square<X, 2 * D>(rows);
  }
}

/// Up to a square of elements: `n` rows of `k`. Behind the first `loose` rows of the result there
/// is room for a vector, which the rows after them fill.
template <class T>
[[gnu::always_inline]] inline void transpose_block(const T* from, std::int64_t stride, int n, int k,
                                                   T* to, std::int64_t to_stride,
                                                   std::int64_t loose) {
  using X = Vec<T>;
  constexpr int kWidth = X::kWidth;
  if (4 * k <= kWidth || 4 * n <= kWidth) {
    for (int j = 0; j < k; ++j) {
      for (int i = 0; i < n; ++i) to[j * to_stride + i] = from[i * stride + j];
    }
    return;
  }
  typename X::Raw square[kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i, from += stride) {
    if (kVectorRegisters == 16 && i < n) __builtin_prefetch(from + kPackedAhead * kWidth);
    square[i] = i >= n ? X::zero() : k == kWidth ? X::load(from) : X::load(from, k);
  }
  transpose_square<X>(square);
#pragma GCC unroll 16
  for (int j = 0; j < kWidth; ++j, to += to_stride) {
    if (j < k) n == kWidth || j < loose ? X::store(to, square[j]) : X::store(to, square[j], n);
  }
}

template <class T>
void transpose(const T* rows, std::int64_t stride, std::int64_t n, std::int64_t k, T* transposed,
               std::int64_t to_stride) {
  constexpr int kWidth = Vec<T>::kWidth;
  const std::int64_t loose = n < kWidth && n == to_stride ? k - kWidth : 0;
  for (std::int64_t i = 0; i < n; i += kWidth) {
    const int height = n - i < kWidth ? static_cast<int>(n - i) : kWidth;
    for (std::int64_t j = 0; j < k; j += kWidth) {
      const int width = k - j < kWidth ? static_cast<int>(k - j) : kWidth;
      transpose_block(rows + i * stride + j, stride, height, width, transposed + j * to_stride + i,
                      to_stride, loose - j);
    }
  }
}

/// Fewer elements are packed one by one.
constexpr std::int64_t kFewTransposed = 256;

template <class T>
void pack(const T* a, std::int64_t row_stride, std::int64_t column_stride, std::int64_t m,
          std::int64_t k, T* packed) {
  for (std::int64_t first = 0; first < m; first += kPanelRows) {
    const std::int64_t rows = m - first < kPanelRows ? m - first : kPanelRows;
    T* panel = packed + first * k;
    const T* source = a + first * row_stride;
    if (column_stride == 1 && rows * k >= kFewTransposed) {
      transpose(source, row_stride, rows, k, panel, kPanelRows);
      continue;
    }
    if (row_stride == 1 && rows == kPanelRows) {
      for (std::int64_t j = 0; j < k; ++j, panel += kPanelRows, source += column_stride) {
        __builtin_memcpy(panel, source, kPanelRows * sizeof(T));
      }
      continue;
    }
    for (std::int64_t j = 0; j < k; ++j) {
      for (int i = 0; i < rows; ++i) {
        panel[j * kPanelRows + i] = source[i * row_stride + j * column_stride];
      }
    }
  }
}

constexpr int kPanelVectors = tile_vectors(kPanelRows);

template <class T>
void pack_columns(const T* b, std::int64_t stride, std::int64_t k, std::int64_t n, T* packed) {
  using X = Vec<T>;
  constexpr std::int64_t kColumns = kPanelVectors * X::kWidth;
  const std::int64_t whole = n / kColumns * kColumns;
  for (std::int64_t row = 0; row < k; ++row, b += stride, packed += kColumns) {
    T* to = packed;
    std::int64_t j = 0;
    for (; j < whole; j += kColumns, to += k * kColumns) {
      __builtin_prefetch(b + kPackedAhead * stride + j);
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors * X::kWidth; v += X::kWidth) {
        X::store(to + v, X::load(b + j + v));
      }
    }
    for (; j < n; ++j, ++to) *to = b[j];
  }
}

template <class T>
void copy(const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t n, T* to,
          std::int64_t to_stride) {
  using X = Vec<T>;
  const std::int64_t whole = n / X::kWidth * X::kWidth;
  const int rest = static_cast<int>(n - whole);
  for (std::int64_t i = 0; i < rows; ++i, from += from_stride, to += to_stride) {
    for (std::int64_t j = 0; j < whole; j += X::kWidth) X::store(to + j, X::load(from + j));
    if (rest > 0) X::store(to + whole, X::load(from + whole, rest), rest);
  }
}

template <class T>
[[gnu::always_inline]] inline const T* row_of(const Rows<T>& rows, std::int64_t i) {
  return rows.data + (rows.offsets ? rows.offsets[i] : i * rows.stride);
}

/// Asks for what comes kRowsAhead rows after row k of columns from j on, V vectors of them: behind
/// the last row, for the first ones of the next columns.
template <class T, int V>
[[gnu::always_inline]] inline void ask_ahead(const ProductBlock<T>& p, std::int64_t k,
                                             std::int64_t j) {
  constexpr std::int64_t kRowsAhead = 16;
  const bool next = k + kRowsAhead >= p.k;
  const T* from = p.b.data + (next ? k + kRowsAhead - p.k : k + kRowsAhead) * p.b.stride + j +
                  (next ? V * Vec<T>::kWidth : 0);
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) __builtin_prefetch(from + v * Vec<T>::kWidth);
}

/// One tile: R rows from `i`, V vectors of columns from `j`, of which the last has `last` lanes.
template <class T, int R, int V, bool Partial>
[[gnu::always_inline]] inline void tile(const ProductBlock<T>& p, std::int64_t i, std::int64_t j,
                                        int last) {
  using X = Vec<T>;
  typename X::Raw sums[R][V];
  const std::int64_t c_stride = p.c_stride;  // copies, which the stores cannot change
  const bool join = p.join;
  T* c = p.c + i * c_stride + j;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const typename X::Raw start = X::all(p.row_bias ? p.row_bias[i + r] : T(0));
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const bool part = Partial && v == V - 1;
      sums[r][v] = start;
      if (p.column_bias) {
        const T* bias = p.column_bias + j + v * X::kWidth;
        sums[r][v] = X::add(start, part ? X::load(bias, last) : X::load(bias));
      }
      if (p.accumulate) {
        const T* old = c + r * c_stride + v * X::kWidth;
        sums[r][v] = X::add(sums[r][v], part ? X::load(old, last) : X::load(old));
      }
    }
  }
  if (join) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) __builtin_prefetch(c + r * c_stride, 1);
  }
  const T* a = p.packed_a + i * p.k;
  const bool ahead = kVectorRegisters == 32 && !Partial && p.ahead && i == 0;
  FACULA_STEPS_TOGETHER
  for (std::int64_t k = 0; k < p.k; ++k, a += kPanelRows) {
    if (ahead) ask_ahead<T, V>(p, k, j);
    const T* b = row_of(p.b, k) + j;
    typename X::Raw row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      row[v] =
          Partial && v == V - 1 ? X::load(b + v * X::kWidth, last) : X::load(b + v * X::kWidth);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const typename X::Raw value = X::all(a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = X::fma(value, row[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      T* to = c + r * c_stride + v * X::kWidth;
      const bool part = Partial && v == V - 1;
      typename X::Raw sum = sums[r][v];
      if (join) sum = X::add(part ? X::load(to, last) : X::load(to), sum);
      part ? X::store(to, sum, last) : X::store(to, sum);
    }
  }
}

/// R rows from `i`, the columns [j, end), at most one tile of them.
template <class T, int R>
void row_tile(const ProductBlock<T>& p, std::int64_t i, std::int64_t j, std::int64_t end) {
  constexpr int kWidth = Vec<T>::kWidth;
  constexpr int kVectors = tile_vectors(R);
  for (; j + kVectors * kWidth <= end; j += kVectors * kWidth) {
    tile<T, R, kVectors, false>(p, i, j, kWidth);
  }
  const int rest = static_cast<int>(end - j);
  if (rest == 0) return;
  const int last = (rest - 1) % kWidth + 1;
  switch ((rest - 1) / kWidth) {
    case 0: return tile<T, R, 1, true>(p, i, j, last);
    case 1: return tile<T, R, 2, true>(p, i, j, last);
    case 2:
      if constexpr (kVectors > 2) return tile<T, R, 3, true>(p, i, j, last);
      break;
    default:
      if constexpr (kVectors > 2) return tile<T, R, 4, true>(p, i, j, last);
  }
}

template <class T, int R>
void rows_up_to(const ProductBlock<T>& p, int rows, std::int64_t i, std::int64_t j,
                std::int64_t end) {
  if constexpr (R > 1) {
    if (rows < R) return rows_up_to<T, R - 1>(p, rows, i, j, end);
  }
  row_tile<T, R>(p, i, j, end);
}

/// Asks for what p.next says, a share for each panel of rows.
template <class T>
[[gnu::always_inline]] inline void ask_for_next(const ProductBlock<T>& p, std::int64_t i) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const std::int64_t panels = (p.m + kPanelRows - 1) / kPanelRows;
  const std::int64_t share = (p.next_size / kLine + panels - 1) / panels * kLine;
  const std::int64_t first = i / kPanelRows * share;
  const std::int64_t end = first + share < p.next_size ? first + share : p.next_size;
  for (std::int64_t k = first; k < end; k += kLine) __builtin_prefetch(p.next + k, 0, 2);
}

template <class T>
void product(const ProductBlock<T>& p) {
  // The columns of a tile of b stay in the first-level cache while all rows of a go by. Where b is
  // shallow, it stays in the second-level one, and results are written along their rows.
  constexpr std::int64_t kColumns = 4 * Vec<T>::kWidth, kShallow = 32;
  const std::int64_t together = p.k <= kShallow ? kPanelRows : p.m;
  for (std::int64_t first = 0; first < p.m; first += together) {
    const std::int64_t last = p.m - first < together ? p.m : first + together;
    for (std::int64_t j = 0; j < p.n; j += kColumns) {
      const std::int64_t end = p.n - j < kColumns ? p.n : j + kColumns;
      std::int64_t i = first;
      for (; i + kPanelRows <= last; i += kPanelRows) {
        if (p.next) ask_for_next(p, i);
        row_tile<T, kPanelRows>(p, i, j, end);
      }
      if (i < last) rows_up_to<T, kPanelRows>(p, static_cast<int>(last - i), i, j, end);
    }
  }
}

// A tile of dot products: 24 accumulators of 32 registers, or 8 of 16.
constexpr int kDotRows = kVectorRegisters == 32 ? 6 : 4;
constexpr int kDotColumns = kVectorRegisters == 32 ? 4 : 2;
/// Few rows leave registers for more columns, without which the processor waits for sums.
constexpr int dot_columns(int rows) { return rows <= 2 ? 2 * kDotColumns : kDotColumns; }

/// Adds up the products of M rows of a and N rows of b. With Ahead, asks for what lies `ahead`
/// elements further in b, for the second-level cache: rows fill most of the first.
template <class T, int M, int N, bool Ahead>
[[gnu::always_inline]] inline void add_dots(const T* const* a, const T* const* b,
                                            std::int64_t count, std::int64_t ahead,
                                            typename Vec<T>::Raw (&sums)[M][N]) {
  using X = Vec<T>;
  std::int64_t k = 0;
  for (; k + X::kWidth <= count; k += X::kWidth) {
    typename X::Raw right[N];
#pragma GCC unroll 8
    for (int s = 0; s < N; ++s) {
      right[s] = X::load(b[s] + k);
      if constexpr (Ahead) __builtin_prefetch(b[s] + k + ahead, 0, 2);
    }
#pragma GCC unroll 6
    for (int r = 0; r < M; ++r) {
      const typename X::Raw left = X::load(a[r] + k);
#pragma GCC unroll 8
      for (int s = 0; s < N; ++s) sums[r][s] = X::fma(left, right[s], sums[r][s]);
    }
  }
  const int rest = static_cast<int>(count - k);
  if (rest == 0) return;
#pragma GCC unroll 6
  for (int r = 0; r < M; ++r) {
    const typename X::Raw left = X::load(a[r] + k, rest);
#pragma GCC unroll 8
    for (int s = 0; s < N; ++s) {
      sums[r][s] = X::fma(left, X::load(b[s] + k, rest), sums[r][s]);
    }
  }
}

/// Writes N neighbours of c at once.
template <int N, class T>
[[gnu::always_inline]] inline void put_totals(const T* totals, const T* bias, bool accumulate,
                                              T* c) {
  using Neighbours [[gnu::vector_size(N * sizeof(T))]] = T;
  Neighbours sums, other;
  __builtin_memcpy(&sums, totals, sizeof sums);
  if (bias) {
    __builtin_memcpy(&other, bias, sizeof other);
    sums += other;
  }
  if (accumulate) {
    __builtin_memcpy(&other, c, sizeof other);
    sums = other + sums;
  }
  __builtin_memcpy(c, &sums, sizeof sums);
}

/// One with one: in several sums, without which each product waits for the one before.
template <class T>
[[gnu::always_inline]] inline void add_dots_of_one(const T* a, const T* b, std::int64_t count,
                                                   typename Vec<T>::Raw& sum) {
  using X = Vec<T>;
  constexpr std::int64_t kSums = 4, kTogether = kSums * X::kWidth;
  typename X::Raw sums[kSums] = {sum, X::zero(), X::zero(), X::zero()};
  std::int64_t k = 0;
  for (; k + kTogether <= count; k += kTogether) {
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) {
      const std::int64_t at = k + s * X::kWidth;
      sums[s] = X::fma(X::load(a + at), X::load(b + at), sums[s]);
    }
  }
  typename X::Raw rest[1][1] = {{X::add(X::add(sums[0], sums[1]), X::add(sums[2], sums[3]))}};
  const T* const left[] = {a + k};
  const T* const right[] = {b + k};
  add_dots<T, 1, 1, false>(left, right, count - k, 0, rest);
  sum = rest[0][0];
}

template <class T, int M, int N, bool Ahead>
void dot_tile(const DotBlock<T>& p, std::int64_t i, std::int64_t j) {
  using X = Vec<T>;
  const T* a[M];
  const T* b[N];
  for (int r = 0; r < M; ++r) a[r] = row_of(p.a, i + r);
  for (int s = 0; s < N; ++s) b[s] = row_of(p.b, j + s);
  typename X::Raw sums[M][N];
#pragma GCC unroll 6
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int s = 0; s < N; ++s) sums[r][s] = X::zero();
  }
  for (std::int64_t pair = 0; pair < p.batch; ++pair) {
    if constexpr (M * N == 1) {
      add_dots_of_one(a[0], b[0], p.k, sums[0][0]);
    } else {
      add_dots<T, M, N, Ahead>(a, b, p.k, N * p.b.stride, sums);
    }
    for (int r = 0; r < M; ++r) a[r] += p.a_step;
    for (int s = 0; s < N; ++s) b[s] += p.b_step;
  }
  T totals[(M + 3) / 4 * 4][N];
  sum_lanes<T, M, N>(sums, totals);
  // Copies, which the stores cannot change.
  const T* bias = p.column_bias ? p.column_bias + j : nullptr;
  const bool accumulate = p.accumulate;
  const std::int64_t stride = p.c_stride;
  T* c = p.c + i * stride + j;
#pragma GCC unroll 6
  for (int r = 0; r < M; ++r, c += stride) put_totals<N>(totals[r], bias, accumulate, c);
}

template <class T, int M, bool Ahead>
void dot_rows(const DotBlock<T>& p, std::int64_t i) {
  constexpr int kColumns = dot_columns(M);
  std::int64_t j = 0;
  for (; j + kColumns <= p.n; j += kColumns) dot_tile<T, M, kColumns, Ahead>(p, i, j);
  if constexpr (kColumns > kDotColumns) {
    for (; j + kDotColumns <= p.n; j += kDotColumns) dot_tile<T, M, kDotColumns, Ahead>(p, i, j);
  }
  for (; j < p.n; ++j) dot_tile<T, M, 1, false>(p, i, j);
}

/// How many of `rows` rows go together. Eight are better cut into 4 + 4 than into 6 + 2.
constexpr int rows_together(std::int64_t rows) {
  if (rows >= kDotRows && rows != 8) return kDotRows;
  return rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
}

template <class T, bool Ahead>
void dot_rows(const DotBlock<T>& p, std::int64_t i, int rows) {
  switch (rows) {
    case 1: return dot_rows<T, 1, Ahead>(p, i);
    case 2: return dot_rows<T, 2, Ahead>(p, i);
    case 4: return dot_rows<T, 4, Ahead>(p, i);
    default: return dot_rows<T, kDotRows, Ahead>(p, i);
  }
}

template <class T>
void dots(const DotBlock<T>& p) {
  for (std::int64_t i = 0; i < p.m;) {
    const int rows = rows_together(p.m - i);
    if (p.ahead && i == 0) {
      dot_rows<T, true>(p, i, rows);
    } else {
      dot_rows<T, false>(p, i, rows);
    }
    i += rows;
  }
}

template <class T>
constexpr GemmLoops<T> kLoops = {kPanelRows, 4 * Vec<T>::kWidth, kPanelVectors* Vec<T>::kWidth,
                                 pack<T>,    pack_columns<T>,    transpose<T>,
                                 copy<T>,    product<T>,         dots<T>};

}  // namespace

extern const GemmKernels gemm_kernels = {kLoops<float>, kLoops<double>};

}  // namespace facula::cpu::FACULA_ISA
