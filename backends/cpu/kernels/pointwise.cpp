#include "backends/cpu/kernels/pointwise.h"

#include "backends/cpu/kernels/simd.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using X = Vec<float>;
using Raw = X::Raw;
constexpr int kWidth = X::kWidth;

/// Accumulators of a tile: three quarters of the registers.
constexpr int kTile = kVectorRegisters * 3 / 4;
constexpr int kLine = 16;  ///< elements of a cache line

/// Rows of a tile of V vectors, at most those of a cache line; each needs a pointer, of which there
/// are 12 to spare.
constexpr int tile_rows(int vectors) { return kTile / vectors < 12 ? kTile / vectors : 12; }

/// Whether four rows at a time fill the multipliers better than six for what is left: one and two
/// do not.
template <int Rows>
constexpr bool better_by_fours(std::int64_t left) {
  return Rows == 6 && (left == 8 || left == 9);
}

std::int64_t vectors_of(std::int64_t n) { return (n + kWidth - 1) / kWidth; }
std::int64_t padded(std::int64_t n) { return vectors_of(n) * kWidth; }

/// Vectors of the next panel when `left` are left: fours and threes, which use the registers best.
/// Of 16 registers, four vectors leave room for three rows, two for six, which need the weights
/// from the second-level cache half as often.
int panel_vectors(std::int64_t left) {
  if constexpr (kVectorRegisters == 16) {
    if (left % 2 == 0) return 2;
  }
  if (left % 4 == 0) return 4;
  return left < 3 ? static_cast<int>(left) : 3;
}

std::int64_t panel_columns(std::int64_t left) { return panel_vectors(vectors_of(left)) * kWidth; }

/// Calls body with the number of vectors as a constant.
template <class Body>
[[gnu::always_inline]] inline void with_vectors(int vectors, Body body) {
  switch (vectors) {
    case 1: return body.template operator()<1>();
    case 2: return body.template operator()<2>();
    case 3: return body.template operator()<3>();
    default: return body.template operator()<4>();
  }
}

/// Vector v of V that follow each other, of which the last has `last` lanes.
template <int V>
[[gnu::always_inline]] inline Raw load_one(const float* from, int v, int last) {
  const bool part = v == V - 1 && last < kWidth;
  return part ? X::load(from + v * kWidth, last) : X::load(from + v * kWidth);
}
template <int V>
[[gnu::always_inline]] inline void store_one(float* to, int v, int last, Raw value) {
  const bool part = v == V - 1 && last < kWidth;
  part ? X::store(to + v * kWidth, value, last) : X::store(to + v * kWidth, value);
}

/// R rows from x, the V vectors of a panel, of which the last has `last` lanes in the result.
/// Fetches the next R rows meanwhile: to the processor this looks like R streams of their own, too
/// short to be foreseen.
template <int R, int V>
void product_tile(const RowProduct& p, const float* x, const float* panel, const float* bias,
                  float* out, int last) {
  // Copies, which stores of results cannot change.
  const bool stream = p.stream;
  const std::int64_t inputs = p.inputs, outputs = p.outputs;
  Raw sums[R][V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Raw start = bias ? load_one<V>(bias, v, last) : X::zero();
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) sums[r][v] = start;
  }
  const float* next = x + R * inputs;
  FACULA_STEPS_TOGETHER
  for (std::int64_t k = 0; k < inputs; ++k, panel += V * kWidth, next += kLine) {
    __builtin_prefetch(next);
    Raw weights[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) weights[v] = X::load(panel + v * kWidth);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const Raw value = X::all(x[r * inputs + k]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = X::fma(value, weights[v], sums[r][v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r, out += outputs) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      stream ? X::stream(out + v * kWidth, sums[r][v]) : store_one<V>(out, v, last, sums[r][v]);
    }
  }
}

template <int V>
void product_panel(const RowProduct& p, const float* panel, std::int64_t first) {
  constexpr int kRows = tile_rows(V);
  const std::int64_t left = p.outputs - first - (V - 1) * kWidth;
  const int last = left < kWidth ? static_cast<int>(left) : kWidth;
  const float* bias = p.bias ? p.bias + first : nullptr;
  float* out = p.out + first;
  if (p.rows < kRows) {
    for (std::int64_t i = 0; i < p.rows; ++i) {
      product_tile<1, V>(p, p.x + i * p.inputs, panel, bias, out + i * p.outputs, last);
    }
    return;
  }
  for (std::int64_t i = 0; i < p.rows; i += kRows) {
    // The last tile reaches back and computes some rows again.
    const std::int64_t row = i + kRows <= p.rows ? i : p.rows - kRows;
    product_tile<kRows, V>(p, p.x + row * p.inputs, panel, bias, out + row * p.outputs, last);
  }
}

void multiply(const RowProduct& p) {
  const float* panel = p.packed_weights + p.inputs * p.first_output;
  for (std::int64_t first = p.first_output; first < p.end_output;) {
    const int vectors = panel_vectors(vectors_of(p.outputs - first));
    with_vectors(vectors, [&]<int V>() { product_panel<V>(p, panel, first); });
    panel += p.inputs * vectors * kWidth;
    first += vectors * kWidth;
  }
}

/// What the sums of a row of V vectors start from.
template <int V>
[[gnu::always_inline]] inline void start_row(const TapsProduct& p, const float* out, int last,
                                             Raw (&sums)[V]) {
  const float* from = p.accumulate ? out : p.bias ? p.bias + p.first_output : nullptr;
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    sums[v] = from ? load_one<V>(from, v, last) : X::zero();
  }
}

/// Asks for a line of each of R rows from `row` on: of what the foremost tap reads, which none has
/// read before, and of the result. To the processor these look like streams of their own, too short
/// to be foreseen.
template <int R>
[[gnu::always_inline]] inline void ask_for_rows(const TapsProduct& p, std::size_t row,
                                                std::int64_t line) {
  const std::int64_t element = line * kLine;
  if (row + R > p.x_rows.size()) return;
  if (element < p.inputs) {
    const std::int64_t first = p.taps.front().offset, last = p.taps.back().offset;
    const float* x = p.x + (first > last ? first : last) + p.first_input + element;
    for (int r = 0; r < R; ++r) __builtin_prefetch(x + p.x_rows[row + r]);
  }
  if (element < p.outputs - p.first_output) {
    const float* out = p.out + p.first_output + element;
    for (int r = 0; r < R; ++r) __builtin_prefetch(out + p.out_rows[row + r], 1);
  }
}

/// R rows, in the V vectors of a panel, of which the last has `last` lanes in the result.
template <int R, int V>
void taps_tile(const TapsProduct& p, std::size_t row, int last) {
  const float* x[R];
  float* out[R];
  Raw sums[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    x[r] = p.x + p.x_rows[row + r] + p.first_input;
    out[r] = p.out + p.out_rows[row + r] + p.first_output;
    start_row<V>(p, out[r], last, sums[r]);
  }
  const std::int64_t inputs = p.inputs;
  const std::int64_t first = p.all_inputs * p.first_output + p.first_input * V * kWidth;
  std::int64_t line = 0;
  for (const PackedTap& tap : p.taps) {
    ask_for_rows<R>(p, row + R, line++);
    const float* panel = tap.weights + first;
    const std::int64_t end = tap.offset + inputs;
    FACULA_STEPS_TOGETHER
    for (std::int64_t k = tap.offset; k < end; ++k, panel += V * kWidth) {
      Raw weights[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) weights[v] = X::load(panel + v * kWidth);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        const Raw value = X::all(x[r][k]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[r][v] = X::fma(value, weights[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store_one<V>(out[r], v, last, sums[r][v]);
  }
}

template <int V>
void taps_panel(const TapsProduct& p) {
  constexpr int kRows = tile_rows(V);
  const std::int64_t left = p.outputs - p.first_output - (V - 1) * kWidth;
  const int last = left < kWidth ? static_cast<int>(left) : kWidth;
  const std::size_t rows = p.x_rows.size();
  std::size_t row = 0;
  for (; row + kRows <= rows && !better_by_fours<kRows>(rows - row); row += kRows) {
    taps_tile<kRows, V>(p, row, last);
  }
  if constexpr (kRows > 4) {
    for (; row + 4 <= rows; row += 4) taps_tile<4, V>(p, row, last);
    for (; row + 2 <= rows; row += 2) taps_tile<2, V>(p, row, last);
  }
  for (; row < rows; ++row) taps_tile<1, V>(p, row, last);
}

void multiply_taps(const TapsProduct& p) {
  const int vectors = panel_vectors(vectors_of(p.outputs - p.first_output));
  with_vectors(vectors, [&]<int V>() { taps_panel<V>(p); });
}

/// Rows of a correlation between which lines ahead are asked for.
constexpr std::int64_t kRowsBetween = 8;

/// Asks for rows ahead, line by line.
class Ahead {
 public:
  /// All in so many calls of ask().
  Ahead(const RowsAhead& rows, std::int64_t calls)
      : row_(rows.first), step_(rows.step), rows_(rows.rows), lines_(lines_of(rows)) {
    at_once_ = (rows_ * lines_ + calls - 1) / calls;
  }

  [[gnu::always_inline]] void ask() {
    for (std::int64_t wanted = at_once_; wanted > 0 && rows_ > 0; --wanted) {
      __builtin_prefetch(row_ + line_ * kLine);
      if (++line_ < lines_) continue;
      line_ = 0;
      row_ += step_;
      --rows_;
    }
  }

 private:
  /// Those that the first row lies in.
  static std::int64_t lines_of(const RowsAhead& rows) {
    const auto before = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(rows.first) /
                                                  sizeof(float) % kLine);
    return (before + rows.elements + kLine - 1) / kLine;
  }

  const float* row_;
  std::int64_t step_, rows_, lines_, at_once_, line_ = 0;
};

/// What a correlation asks for.
struct BothAhead {
  Ahead a, b;

  explicit BothAhead(const RowCorrelation& p) : BothAhead(p, calls(p)) {}
  [[gnu::always_inline]] void ask() {
    a.ask();
    b.ask();
  }

 private:
  BothAhead(const RowCorrelation& p, std::int64_t calls) : a(p.next_a, calls), b(p.next_b, calls) {}
  static std::int64_t calls(const RowCorrelation& p) {
    const std::int64_t tiles = (p.m * vectors_of(p.n) + kTile - 1) / kTile;
    return tiles * static_cast<std::int64_t>(p.a_runs.size()) *
           ((p.rows + kRowsBetween - 1) / kRowsBetween);
  }
};

/// Calls body with a number of rows as a constant, the first of them and how many times as many
/// follow: `Rows` while there are so many, then fours and ones.
template <int Rows, class Body>
[[gnu::always_inline]] inline void for_tiles_of_rows(std::int64_t m, Body body) {
  std::int64_t whole = m / Rows;
  if (whole > 0 && better_by_fours<Rows>(m - (whole - 1) * Rows)) --whole;
  body.template operator()<Rows>(0, whole);
  std::int64_t i = whole * Rows;
  const std::int64_t fours = (m - i) / 4;
  body.template operator()<4>(i, fours);
  i += 4 * fours;
  body.template operator()<1>(i, m - i);
}

/// R columns of a and V vectors of columns of b, of which the last has `last` lanes.
template <int R, int V>
void correlation_tile(const RowCorrelation& p, BothAhead& ahead, float* sums, int last) {
  const std::int64_t a_step = p.a_step, b_step = p.b_step, stride = p.sums_step;
  Raw total[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) total[r][v] = X::load(sums + r * stride + v * kWidth);
  }
  for (std::size_t run = 0; run < p.a_runs.size(); ++run) {
    const float* a = p.a + p.a_runs[run];
    const float* b = p.b + p.b_runs[run];
    for (std::int64_t left = p.rows; left > 0; left -= kRowsBetween) {
      ahead.ask();
      const std::int64_t rows = left < kRowsBetween ? left : kRowsBetween;
      for (std::int64_t row = 0; row < rows; ++row, a += a_step, b += b_step) {
        Raw values[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) values[v] = load_one<V>(b, v, last);
#pragma GCC unroll 12
        for (int r = 0; r < R; ++r) {
          const Raw factor = X::all(a[r]);
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) total[r][v] = X::fma(factor, values[v], total[r][v]);
        }
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) X::store(sums + r * stride + v * kWidth, total[r][v]);
  }
}

/// Lanes of the last of V vectors of columns from j on.
template <int V>
int lanes_of_last(const RowCorrelation& p, std::int64_t j) {
  const std::int64_t left = p.n - j - (V - 1) * kWidth;
  return left < kWidth ? static_cast<int>(left) : kWidth;
}

template <int V>
void correlation_panel(const RowCorrelation& p, BothAhead& ahead, std::int64_t j) {
  const int last = lanes_of_last<V>(p, j);
  RowCorrelation tile = p;
  tile.b += j;
  for_tiles_of_rows<tile_rows(V)>(p.m, [&]<int R>(std::int64_t i, std::int64_t tiles) {
    for (; tiles > 0; --tiles, i += R) {
      tile.a = p.a + i;
      correlation_tile<R, V>(tile, ahead, p.sums + i * p.sums_step + j, last);
    }
  });
}

// Lines of rows that are some hundred elements apart displace each other in the caches, which
// blocks of a matrix with many columns are read from again and again. So their columns are brought
// together first, as in other products: those of a once, of b before their turn. Tiles of AVX-512,
// with twice as many rows and columns, reach nine tenths of the peak without.

constexpr bool kPacks = kVectorRegisters == 16;
/// Worth it: columns of both sides, and sums.
constexpr std::int64_t kFewestPacked = 48, kFewestPackedSums = 6144;
/// Of the panels.
constexpr int kPackedVectors = 2, kPackedRows = tile_rows(kPackedVectors);

std::int64_t packed_size(std::int64_t m, std::int64_t n, std::int64_t rows) {
  const bool worth = m >= kFewestPacked && n >= kFewestPacked && m * n >= kFewestPackedSums;
  return kPacks && worth ? (kPackedVectors * kWidth + m) * rows : 0;
}

/// Panels of R columns of a each, from column i on, of `depth` rows.
template <int R>
void pack_columns_of_a(const RowCorrelation& p, std::int64_t i, std::int64_t panels,
                       std::int64_t depth, float* to) {
  for (const std::int64_t run : p.a_runs) {
    const float* a = p.a + run + i;
    for (std::int64_t row = 0; row < p.rows; ++row, a += p.a_step, to += R) {
      float* panel = to;
      for (std::int64_t k = 0; k < panels; ++k, panel += R * depth) {
        __builtin_memcpy(panel, a + k * R, R * sizeof(float));
      }
    }
  }
}

template <int V>
void pack_columns_of_b(const RowCorrelation& p, std::int64_t j, int last, float* to) {
  for (const std::int64_t run : p.b_runs) {
    const float* b = p.b + run + j;
    for (std::int64_t row = 0; row < p.rows; ++row, b += p.b_step) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v, to += kWidth) X::store(to, load_one<V>(b, v, last));
    }
  }
}

/// V vectors of columns of b from column j on, times all of a, which is packed.
template <int V>
void packed_panel(const RowCorrelation& packed, const RowCorrelation& p, BothAhead& ahead,
                  std::int64_t j) {
  pack_columns_of_b<V>(p, j, lanes_of_last<V>(p, j), p.packed);
  RowCorrelation tile = packed;
  tile.b_step = V * kWidth;
  for_tiles_of_rows<kPackedRows>(p.m, [&]<int R>(std::int64_t i, std::int64_t tiles) {
    tile.a_step = R;
    for (; tiles > 0; --tiles, i += R) {
      tile.a = packed.a + i * packed.rows;
      correlation_tile<R, V>(tile, ahead, p.sums + i * p.sums_step + j, kWidth);
    }
  });
}

void correlate_packed(const RowCorrelation& p, BothAhead& ahead) {
  const std::int64_t depth = p.rows * static_cast<std::int64_t>(p.a_runs.size());
  float* const a = p.packed + kPackedVectors * kWidth * depth;
  for_tiles_of_rows<kPackedRows>(p.m, [&]<int R>(std::int64_t i, std::int64_t tiles) {
    pack_columns_of_a<R>(p, i, tiles, depth, a + i * depth);
  });
  static constexpr std::int64_t kOneRun[] = {0};
  RowCorrelation packed = p;
  packed.a = a;
  packed.b = p.packed;
  packed.rows = depth;
  packed.a_runs = packed.b_runs = kOneRun;
  std::int64_t j = 0;
  for (; j + kWidth < p.n; j += kPackedVectors * kWidth) {
    packed_panel<kPackedVectors>(packed, p, ahead, j);
  }
  if (j < p.n) packed_panel<1>(packed, p, ahead, j);
}

void correlate(const RowCorrelation& p) {
  BothAhead ahead(p);
  if constexpr (kPacks) {
    if (p.packed) return correlate_packed(p, ahead);
  }
  for (std::int64_t j = 0; j < p.n;) {
    const int vectors = panel_vectors(vectors_of(p.n - j));
    with_vectors(vectors, [&]<int V>() { correlation_panel<V>(p, ahead, j); });
    j += vectors * kWidth;
  }
}

}  // namespace

extern const PointwiseKernels pointwise_kernels = {padded,        panel_columns, multiply,
                                                   multiply_taps, correlate,     packed_size};

}  // namespace facula::cpu::FACULA_ISA
