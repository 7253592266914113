// The transforms of F(4x4, 3x3) and F(3x3, 4x4), and the products between them.
//
// Cook and Toom: to multiply polynomials, evaluate both at enough points, multiply the values and
// interpolate. Transposing that algorithm gives one for filtering (S. Winograd, Arithmetic
// Complexity of Computations, 1980); nested in two dimensions it convolves images (A. Lavin and S.
// Gray, Fast Algorithms for Convolutional Neural Networks, 2015): y = A^T [(G g G^T) . (B^T d B)]
// A. For points p_0 ... p_4 and infinity, with M(x) = (x - p_0) ... (x - p_4):
//   row i of B^T: the coefficients of M(x) / (x - p_i); the last row those of M(x) itself,
//   row i of G:   1, p_i, p_i^2, ... divided by M'(p_i); the last row 0, ..., 0, 1,
//   column i of A^T: 1, p_i, p_i^2, ...; the last column 0, ..., 0, 1.
// With the points 0, a, -a, b, -b, M(x) = x (x^2 - a^2) (x^2 - b^2), so
//          0:  a^2 b^2     0    -a^2-b^2      0      1   0
//         +a:     0     -a b^2    -b^2        a      1   0
//   B^T   -a:     0     +a b^2    -b^2       -a      1   0
//         +b:     0     -a^2 b    -a^2        b      1   0
//         -b:     0     +a^2 b    -a^2       -b      1   0
//        inf:     0     a^2 b^2     0     -a^2-b^2   0   1
//   M'(0) = a^2 b^2, M'(+-a) = 2 a^2 (a^2 - b^2), M'(+-b) = 2 b^2 (b^2 - a^2).
// Only the numbers of columns of G and of rows of A^T distinguish F(4, 3) from F(3, 4).
//
// a = 5/8 and b = 3/2 have less than half the rounding errors of the usual 1 and 2.
#include "backends/cpu/kernels/winograd.h"

#include "backends/cpu/kernels/simd.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using namespace winograd;  // NOLINT(google-build-using-namespace): constants and parameter structs
using X = Vec<float>;
using Raw = X::Raw;
constexpr int kWidth = X::kWidth;

constexpr float kA = 5.f / 8, kB = 3.f / 2;
constexpr float kA2 = kA * kA, kB2 = kB * kB;
constexpr float kAtZero = 1 / (kA2 * kB2);           // 1 / M'(0)
constexpr float kAtA = 1 / (2 * kA2 * (kA2 - kB2));  // 1 / M'(a)
constexpr float kAtB = 1 / (2 * kB2 * (kB2 - kA2));  // 1 / M'(b)

#define FACULA_INLINE [[gnu::always_inline]] static inline
#define FACULA_INLINED __attribute__((always_inline))  // for lambdas

/// B^T: input pixels.
struct InputTransform {
  static constexpr int kIn = kPoints, kOut = kPoints;
  FACULA_INLINE void apply(const Raw (&d)[kIn], Raw (&out)[kOut]) {
    const Raw product = X::all(kA2 * kB2), sum = X::all(-(kA2 + kB2));
    const Raw minus_a2 = X::all(-kA2), minus_b2 = X::all(-kB2);
    out[0] = X::fma(product, d[0], X::fma(sum, d[2], d[4]));
    const Raw even_a = X::fma(minus_b2, d[2], d[4]);
    const Raw odd_a = X::all(kA) * X::fma(minus_b2, d[1], d[3]);
    out[1] = even_a + odd_a;
    out[2] = even_a - odd_a;
    const Raw even_b = X::fma(minus_a2, d[2], d[4]);
    const Raw odd_b = X::all(kB) * X::fma(minus_a2, d[1], d[3]);
    out[3] = even_b + odd_b;
    out[4] = even_b - odd_b;
    out[5] = X::fma(product, d[1], X::fma(sum, d[3], d[5]));
  }
};

/// G for 3 taps: weights.
struct WeightTransform {
  static constexpr int kIn = kTaps, kOut = kPoints;
  FACULA_INLINE void apply(const Raw (&g)[kIn], Raw (&out)[kOut]) {
    out[0] = X::all(kAtZero) * g[0];
    const Raw even_a = X::fma(X::all(kAtA), g[0], X::all(kAtA * kA2) * g[2]);
    const Raw odd_a = X::all(kAtA * kA) * g[1];
    out[1] = even_a + odd_a;
    out[2] = even_a - odd_a;
    const Raw even_b = X::fma(X::all(kAtB), g[0], X::all(kAtB * kB2) * g[2]);
    const Raw odd_b = X::all(kAtB * kB) * g[1];
    out[3] = even_b + odd_b;
    out[4] = even_b - odd_b;
    out[5] = g[2];
  }
};

/// G for 4 taps: the gradient of the output, in the gradient of the weights.
struct GradientTransform {
  static constexpr int kIn = kTile, kOut = kPoints;
  FACULA_INLINE void apply(const Raw (&g)[kIn], Raw (&out)[kOut]) {
    out[0] = X::all(kAtZero) * g[0];
    const Raw even_a = X::fma(X::all(kAtA), g[0], X::all(kAtA * kA2) * g[2]);
    const Raw odd_a = X::fma(X::all(kAtA * kA), g[1], X::all(kAtA * kA2 * kA) * g[3]);
    out[1] = even_a + odd_a;
    out[2] = even_a - odd_a;
    const Raw even_b = X::fma(X::all(kAtB), g[0], X::all(kAtB * kB2) * g[2]);
    const Raw odd_b = X::fma(X::all(kAtB * kB), g[1], X::all(kAtB * kB2 * kB) * g[3]);
    out[3] = even_b + odd_b;
    out[4] = even_b - odd_b;
    out[5] = g[3];
  }
};

/// A^T with 4 rows: pixels of the output.
struct OutputTransform {
  static constexpr int kIn = kPoints, kOut = kTile;
  FACULA_INLINE void apply(const Raw (&m)[kIn], Raw (&out)[kOut]) {
    const Raw even_a = m[1] + m[2], odd_a = m[1] - m[2];
    const Raw even_b = m[3] + m[4], odd_b = m[3] - m[4];
    out[0] = m[0] + even_a + even_b;
    out[1] = X::fma(X::all(kA), odd_a, X::all(kB) * odd_b);
    out[2] = X::fma(X::all(kA2), even_a, X::all(kB2) * even_b);
    out[3] = X::fma(X::all(kA2 * kA), odd_a, X::fma(X::all(kB2 * kB), odd_b, m[5]));
  }
};

/// A^T with 3 rows: the gradient of the weights.
struct WeightGradientTransform {
  static constexpr int kIn = kPoints, kOut = kTaps;
  FACULA_INLINE void apply(const Raw (&m)[kIn], Raw (&out)[kOut]) {
    const Raw even_a = m[1] + m[2], odd_a = m[1] - m[2];
    const Raw even_b = m[3] + m[4], odd_b = m[3] - m[4];
    out[0] = m[0] + even_a + even_b;
    out[1] = X::fma(X::all(kA), odd_a, X::all(kB) * odd_b);
    out[2] = X::fma(X::all(kA2), even_a, X::fma(X::all(kB2), even_b, m[5]));
  }
};

/// T in T^t for a square `in`, of which load(i, j) gives the elements; store(i, j, value) takes
/// those of the result.
template <class T, class Load, class Store>
[[gnu::always_inline]] inline void transform(const Load& load, const Store& store) {
  Raw half[T::kOut][T::kIn];
#pragma GCC unroll 6
  for (int j = 0; j < T::kIn; ++j) {
    Raw column[T::kIn], result[T::kOut];
#pragma GCC unroll 6
    for (int i = 0; i < T::kIn; ++i) column[i] = load(i, j);
    T::apply(column, result);
#pragma GCC unroll 6
    for (int i = 0; i < T::kOut; ++i) half[i][j] = result[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < T::kOut; ++i) {
    Raw result[T::kOut];
    T::apply(half[i], result);
#pragma GCC unroll 6
    for (int j = 0; j < T::kOut; ++j) store(i, j, result[j]);
  }
}

template <bool Partial>
[[gnu::always_inline]] inline Raw load(const float* p, int lanes) {
  return Partial ? X::load(p, lanes) : X::load(p);
}
/// How a vector is stored: the whole, some lanes, or past the caches where the instruction set can.
enum class Target { vector, lanes, stream };

template <Target Kind>
[[gnu::always_inline]] inline void store(float* p, Raw value, int lanes = kWidth) {
  if constexpr (Kind == Target::lanes) {
    X::store(p, value, lanes);
  } else if constexpr (Kind == Target::vector) {
    X::store(p, value);
  } else {
#if defined(__AVX512F__)
    _mm512_stream_ps(p, value);
#elif defined(__AVX2__)
    _mm256_stream_ps(p, value);
#else
    X::store(p, value);
#endif
  }
}

/// Makes streamed data visible to the other threads.
[[gnu::always_inline]] inline void end_of_stream() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

/// The pixels at which tile number `tile` begins.
struct Corner {
  std::int64_t image, y, x;

  template <class T>
  Corner(const Images<T>& images, std::int64_t tile)
      : image(tile / (images.tile_rows * images.tile_columns)),
        y(tile / images.tile_columns % images.tile_rows * kTile - images.pad_h),
        x(tile % images.tile_columns * kTile - images.pad_w) {}
};

constexpr float kZeros[kMostChannels] = {};

/// Where the pixels of a tile are; those outside of the image are in kZeros.
template <int Side>
struct Pixels {
  const float* at[Side][Side];

  void locate(const Images<const float>& images, const Part& part, std::int64_t tile) {
    const Corner corner(images, part.first_tile + tile);
    for (int i = 0; i < Side; ++i) {
      const std::int64_t y = corner.y + i;
      const bool inside = y >= 0 && y < images.h;
      for (int j = 0; j < Side; ++j) {
        const std::int64_t x = corner.x + j;
        const std::int64_t pixel = (corner.image * images.h + y) * images.w + x;
        at[i][j] = inside && x >= 0 && x < images.w
                       ? images.data + pixel * images.channels + part.first_channel
                       : kZeros;
      }
    }
  }
};

/// One vector of channels. That of the next tile is on its way meanwhile: the pieces of memory that
/// a tile touches are too short for the hardware to foresee.
template <class T, bool Partial>
[[gnu::always_inline]] inline void transform_vector(const Pixels<T::kIn>& pixels,
                                                    const Pixels<T::kIn>& next, std::int64_t c,
                                                    int lanes, float* values,
                                                    std::int64_t position_stride) {
  transform<T>(
      [&](int i, int j) FACULA_INLINED {
        // The first columns overlap the tile before.
        if (j >= T::kIn - kTile) __builtin_prefetch(next.at[i][j] + c);
        return load<Partial>(pixels.at[i][j] + c, lanes);
      },
      [&](int i, int j, Raw value)
          FACULA_INLINED { X::store(values + (i * kPoints + j) * position_stride + c, value); });
}

/// Squares of T::kIn pixels, at every tile's corner, to their transforms.
template <class T>
void transform_images(const Images<const float>& from, const Part& part, const Transformed& to) {
  Pixels<T::kIn> pixels[2];
  pixels[0].locate(from, part, 0);
  for (std::int64_t t = 0; t < part.tiles; ++t) {
    const Pixels<T::kIn>& own = pixels[t % 2];
    Pixels<T::kIn>& next = pixels[(t + 1) % 2];
    next.locate(from, part, t + 1 < part.tiles ? t + 1 : t);
    float* values = to.data + t * to.tile_stride;
    std::int64_t c = 0;
    for (; c + kWidth <= part.channels; c += kWidth) {
      transform_vector<T, false>(own, next, c, kWidth, values, to.position_stride);
    }
    if (c < part.channels) {
      transform_vector<T, true>(own, next, c, static_cast<int>(part.channels - c), values,
                                to.position_stride);
    }
  }
}

/// A tile of the output: its sums of products, and the part that lies in the image.
struct OutputTile {
  const float* sums;
  std::int64_t position_stride;
  float* pixels;
  std::int64_t line, channels;  ///< from a pixel to the one below and to the next
  int rows, columns;

  OutputTile(const Transformed& from, const Part& part, const Images<float>& to, std::int64_t tile)
      : sums(from.data + tile * from.tile_stride),
        position_stride(from.position_stride),
        line(to.w * to.channels),
        channels(to.channels) {
    const Corner corner(to, part.first_tile + tile);
    pixels = to.data + (corner.image * to.h + corner.y) * line + corner.x * channels +
             part.first_channel;
    rows = static_cast<int>(to.h - corner.y < kTile ? to.h - corner.y : kTile);
    columns = static_cast<int>(to.w - corner.x < kTile ? to.w - corner.x : kTile);
  }
};

template <Target Kind>
[[gnu::always_inline]] inline void output_vector(const OutputTile& tile, const float* bias,
                                                 std::int64_t c, int lanes) {
  const Raw start = bias ? load<Kind == Target::lanes>(bias + c, lanes) : X::zero();
  transform<OutputTransform>(
      [&](int i, int j) FACULA_INLINED {
        return X::load(tile.sums + (i * kPoints + j) * tile.position_stride + c);
      },
      [&](int i, int j, Raw value) FACULA_INLINED {
        if (i >= tile.rows || j >= tile.columns) return;
        store<Kind>(tile.pixels + i * tile.line + j * tile.channels + c, value + start, lanes);
      });
}

template <Target Kind>
void output_tiles(const Transformed& from, const float* bias, const Part& part,
                  const Images<float>& to) {
  const float* own_bias = bias ? bias + part.first_channel : nullptr;
  for (std::int64_t t = 0; t < part.tiles; ++t) {
    const OutputTile tile(from, part, to, t);
    std::int64_t c = 0;
    for (; c + kWidth <= part.channels; c += kWidth) output_vector<Kind>(tile, own_bias, c, kWidth);
    if (c < part.channels) {
      output_vector<Target::lanes>(tile, own_bias, c, static_cast<int>(part.channels - c));
    }
  }
}

void output(const Transformed& from, const float* bias, const Part& part, const Images<float>& to,
            bool stream) {
  if (!stream) return output_tiles<Target::vector>(from, bias, part, to);
  output_tiles<Target::stream>(from, bias, part, to);
  end_of_stream();
}

// --- Products ------------------------------------------------------------------------------------

constexpr int kVectors = 2;
constexpr int kPanel = kVectors * kWidth;
/// Rows of a tile of accumulators, which fills three quarters of the registers.
constexpr int kRows = kVectorRegisters * 3 / 4 / kVectors;

/// How far ahead weights are fetched, which follow each other in memory in the order of their use.
constexpr int kPrefetchDistance = 32 * kPanel;

/// R rows and V vectors of columns of one product. Either the rows of a are dense or its columns.
template <int R, int V, bool DenseRows>
[[gnu::always_inline]] inline void product_tile(const Products& p, const float* a, const float* b,
                                                float* c) {
  Raw sums[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sums[r][v] = X::zero();
  }
  const std::int64_t row_stride = DenseRows ? p.a_row_stride : 1;
  const std::int64_t depth_stride = DenseRows ? 1 : p.a_depth_stride;
  for (std::int64_t k = 0; k < p.depth; ++k, a += depth_stride, b += p.b_depth_stride) {
    Raw right[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      right[v] = X::load(b + v * kWidth);
      if constexpr (DenseRows) __builtin_prefetch(b + v * kWidth + kPrefetchDistance);
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const Raw left = X::all(a[r * row_stride]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sums[r][v] = X::fma(left, right[v], sums[r][v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      // Added at the end: that has smaller rounding errors than to start from the old sum.
      float* to = c + r * p.c_row_stride + v * kWidth;
      X::store(to, p.accumulate ? X::load(to) + sums[r][v] : sums[r][v]);
    }
  }
}

template <int R, int V, bool DenseRows>
void last_rows(const Products& p, int rows, const float* a, const float* b, float* c) {
  if constexpr (R > 1) {
    if (rows < R) return last_rows<R - 1, V, DenseRows>(p, rows, a, b, c);
  }
  product_tile<R, V, DenseRows>(p, a, b, c);
}

/// All rows of V vectors of columns.
template <int V, bool DenseRows>
void product_panel(const Products& p, const float* a, const float* b, float* c) {
  std::int64_t i = 0;
  for (; i + kRows <= p.rows; i += kRows) {
    product_tile<kRows, V, DenseRows>(p, a + i * p.a_row_stride, b, c + i * p.c_row_stride);
  }
  if (i < p.rows) {
    last_rows<kRows - 1, V, DenseRows>(p, static_cast<int>(p.rows - i), a + i * p.a_row_stride, b,
                                       c + i * p.c_row_stride);
  }
}

template <bool DenseRows>
void products_of(const Products& p) {
  for (int position = 0; position < kPositions; ++position) {
    const float* a = p.a + position * p.a_position_stride;
    const float* b = p.b + position * p.b_position_stride;
    float* c = p.c + position * p.c_position_stride;
    std::int64_t j = 0;
    for (; j + kWidth < p.columns; j += kPanel, b += p.b_panel_stride) {
      product_panel<kVectors, DenseRows>(p, a, b, c + j);
    }
    if (j < p.columns) product_panel<1, DenseRows>(p, a, b, c + j);
  }
}

void products(const Products& p) {
  p.a_depth_stride == 1 ? products_of<true>(p) : products_of<false>(p);
}

// --- Weights -------------------------------------------------------------------------------------

template <Target Kind, bool Partial>
[[gnu::always_inline]] inline void weight_vector(const Weights& w, std::int64_t c, std::int64_t k,
                                                 int lanes) {
  const float* taps = w.taps + c * w.row_stride + k;
  float* to = w.data + c * kPanel + k;
  transform<WeightTransform>(
      [&](int i, int j) FACULA_INLINED {
        const int tap = i * kTaps + j, last = kTaps * kTaps - 1;
        return load<Partial>(taps + (w.rotated ? last - tap : tap) * w.tap_stride, lanes);
      },
      [&](int i, int j, Raw value)
          FACULA_INLINED { store<Kind>(to + (i * kPoints + j) * w.position_stride, value); });
}

template <Target Kind>
void transform_weights(const Weights& w) {
  for (std::int64_t c = 0; c < w.channels; ++c) {
    std::int64_t k = 0;
    for (; k + kWidth <= w.outputs; k += kWidth) weight_vector<Kind, false>(w, c, k, kWidth);
    if (k < w.outputs) weight_vector<Kind, true>(w, c, k, static_cast<int>(w.outputs - k));
  }
}

void weights(const Weights& w, bool stream) {
  if (!stream) return transform_weights<Target::vector>(w);
  transform_weights<Target::stream>(w);
  end_of_stream();
}

template <Target Kind>
[[gnu::always_inline]] inline void gradient_vector(const WeightGradient& g, std::int64_t row,
                                                   std::int64_t column, int lanes) {
  const float* sums = g.data + row * g.row_stride + column;
  float* taps = g.taps + row * g.tap_row_stride + column;
  transform<WeightGradientTransform>(
      [&](int i, int j)
          FACULA_INLINED { return X::load(sums + (i * kPoints + j) * g.position_stride); },
      [&](int i, int j, Raw value)
          FACULA_INLINED { store<Kind>(taps + (i * kTaps + j) * g.tap_stride, value, lanes); });
}

void weight_gradient(const WeightGradient& g) {
  for (std::int64_t row = 0; row < g.rows; ++row) {
    std::int64_t column = 0;
    for (; column + kWidth <= g.columns; column += kWidth) {
      gradient_vector<Target::vector>(g, row, column, kWidth);
    }
    if (column < g.columns) {
      gradient_vector<Target::lanes>(g, row, column, static_cast<int>(g.columns - column));
    }
  }
}

}  // namespace

extern const winograd::Kernels winograd_kernels = {
    kWidth,
    kPanel,
    transform_images<InputTransform>,
    transform_images<GradientTransform>,
    weights,
    products,
    output,
    weight_gradient,
};

}  // namespace facula::cpu::FACULA_ISA
