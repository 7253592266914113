#include "backends/cpu/kernels/direct_conv.h"

#include "backends/cpu/kernels/simd.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using Wide = Vec<float>;

#if defined(__AVX512F__)
/// Half a vector, for up to 8 lanes: its arithmetic has twice the rate.
struct Narrow {
  static constexpr int kWidth = 8;
  using Raw = __m256;
  [[gnu::always_inline]] static Raw zero() { return _mm256_setzero_ps(); }
  [[gnu::always_inline]] static Raw all(float x) { return _mm256_set1_ps(x); }
  [[gnu::always_inline]] static Raw load(const float* p) { return _mm256_loadu_ps(p); }
  [[gnu::always_inline]] static Raw load(const float* p, int n) {
    return _mm256_maskz_loadu_ps(static_cast<__mmask8>((1u << n) - 1), p);
  }
  [[gnu::always_inline]] static void store(float* p, Raw v) { _mm256_storeu_ps(p, v); }
  [[gnu::always_inline]] static void store(float* p, Raw v, int n) {
    _mm256_mask_storeu_ps(p, static_cast<__mmask8>((1u << n) - 1), v);
  }
  [[gnu::always_inline]] static void stream(float* p, Raw v) { _mm256_stream_ps(p, v); }
  [[gnu::always_inline]] static Raw fma(Raw a, Raw b, Raw c) { return _mm256_fmadd_ps(a, b, c); }
  [[gnu::always_inline]] static Raw add(Raw a, Raw b) { return _mm256_add_ps(a, b); }
};
#else
using Narrow = Wide;
#endif
/// Whether parts of vectors are stored as fast as whole ones.
constexpr bool kMasks = kVectorRegisters == 32;
/// Whether there are stores past the caches.
#ifdef __AVX2__
constexpr bool kStreams = true;
#else
constexpr bool kStreams = false;
#endif

// Three quarters of the registers hold sums.
constexpr int kSums = kVectorRegisters * 3 / 4;
/// Pixels that a tile of so many vectors has at most. More would only need more address arithmetic.
constexpr int most_pixels(int vectors) { return kSums / vectors < 12 ? kSums / vectors : 12; }
constexpr int most_added_pixels(int vectors) {
  return most_pixels(vectors) < 10 ? most_pixels(vectors) : 10;
}
/// Vectors of a panel whose results are stored: with four, a value of the image serves them all,
/// and 64 channels are written pixel by pixel.
constexpr int kStoredVectors = kVectorRegisters == 32 ? 4 : 2;
/// Elements that go together with so many vectors at most.
constexpr int most_elements(int vectors) { return kSums / vectors; }

/// As many whole vectors as go together, at most `Most`. What half a vector holds is left to one.
template <int Most>
std::int64_t panel_width(std::int64_t lanes) {
  if (lanes <= Narrow::kWidth) return Narrow::kWidth;
  constexpr int kLeft = Narrow::kWidth < Wide::kWidth ? Narrow::kWidth : 0;
  const std::int64_t vectors = (lanes - kLeft + Wide::kWidth - 1) / Wide::kWidth;
  return (vectors < Most ? vectors : Most) * Wide::kWidth;
}

/// Addresses of the pixels of a tile from few registers: groups of four around a base each.
struct PixelStep {
  std::int64_t one, three;  // bytes

  explicit PixelStep(std::int64_t step) : one(step * 4), three(step * 12) {
    asm("" : "+r"(one), "+r"(three));  // or the compiler would keep an address for every pixel
  }
  [[gnu::always_inline]] float at(const float* base, int i) const {
    const auto* bytes = reinterpret_cast<const char*>(base);
    const std::int64_t offset = i == 0 ? 0 : i == 1 ? one : i == 2 ? 2 * one : three;
    return *reinterpret_cast<const float*>(bytes + offset);
  }
};

template <class X, int P, int V>
[[gnu::always_inline]] inline void add_segments(const ConvLine& line, const float* panel,
                                                std::int64_t pixel, typename X::Raw (&sums)[P][V]) {
  constexpr int kBases = (P + 3) / 4;
  constexpr int kPanel = V * X::kWidth;
  const PixelStep step(line.step);
  for (std::int64_t s = 0; s < line.segments; ++s) {
    const float* weights = panel + line.first_row[s] * kPanel;
    const float* bases[kBases];
    for (int b = 0; b < kBases; ++b) {
      bases[b] = line.input + (line.shift + line.offsets[s] + (pixel + 4 * b) * line.step);
      asm("" : "+r"(bases[b]));
    }
    for (std::int64_t e = 0; e < line.run; ++e, weights += kPanel) {
      typename X::Raw row[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) row[v] = X::load(weights + v * X::kWidth);
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) {
        const typename X::Raw x = X::all(step.at(bases[p / 4], p % 4));
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[p][v] = X::fma(x, row[v], sums[p][v]);
      }
#pragma GCC unroll 4
      for (int b = 0; b < kBases; ++b) ++bases[b];
    }
  }
}

/// The first `n` lanes of each of the vectors. For instruction sets without masks, whose partial
/// stores would be the better part of every tile.
[[gnu::noinline, maybe_unused]] void store_parts(const float* vectors, int count, int n, float* out,
                                                 std::int64_t out_step) {
  for (int p = 0; p < count; ++p, vectors += Wide::kWidth, out += out_step) {
    for (int i = 0; i < n; ++i) out[i] = vectors[i];
  }
}

/// Writes the results of P pixels, of whose last vectors `last` lanes count.
template <class X, int P, int V>
[[gnu::always_inline]] inline void store_results(const ConvLine& line, float* out, int last,
                                                 const typename X::Raw (&sums)[P][V]) {
  const std::int64_t out_step = line.out_step;  // a copy, which the stores cannot change
  if (kStreams && line.stream) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p, out += out_step) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) X::stream(out + v * X::kWidth, sums[p][v]);
    }
    return;
  }
  const bool parts = !kMasks && last < X::kWidth;
  float vectors[P * X::kWidth];
  float* const first_end = out + (V - 1) * X::kWidth;
  float* end = parts ? vectors : first_end;
  const std::int64_t end_step = parts ? X::kWidth : out_step;
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p, out += out_step, end += end_step) {
#pragma GCC unroll 4
    for (int v = 0; v < V - 1; ++v) X::store(out + v * X::kWidth, sums[p][v]);
    if (kMasks) {
      X::store(end, sums[p][V - 1], last);
    } else {
      X::store(end, sums[p][V - 1]);
    }
  }
  if (parts) store_parts(vectors, P, last, first_end, out_step);
}

/// The results of P pixels in one panel, the last vector of which has `last` lanes.
template <class X, int P, int V, bool Add>
void tile(const ConvLine& line, std::int64_t lane, std::int64_t pixel, int last) {
  typename X::Raw sums[P][V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const typename X::Raw start = Add ? X::zero() : X::load(line.bias + lane + v * X::kWidth);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) sums[p][v] = start;
  }
  add_segments<X, P, V>(line, line.weights.data + lane * line.weights.depth, pixel, sums);
  float* out = line.out + lane + pixel * line.out_step;
  if constexpr (!Add) return store_results<X, P, V>(line, out, last, sums);
  const std::int64_t out_step = line.out_step;
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p, out += out_step) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      float* to = out + v * X::kWidth;
      X::store(to, X::add(X::load(to), sums[p][v]));
    }
  }
}

template <class X, int P, int V, bool Add>
void tile_of(int pixels, const ConvLine& line, std::int64_t lane, std::int64_t pixel, int last) {
  if constexpr (P > 1) {
    if (pixels < P) return tile_of<X, P - 1, V, Add>(pixels, line, lane, pixel, last);
  }
  tile<X, P, V, Add>(line, lane, pixel, last);
}

/// Tiles of equal size, as far as possible: a small last one would wait for its own sums.
template <class X, int V, bool Add>
void panel_line(const ConvLine& line, std::int64_t lane) {
  constexpr int kMost = Add ? most_added_pixels(V) : most_pixels(V);
  const std::int64_t left = line.weights.lanes - lane - (V - 1) * X::kWidth;
  const int last = static_cast<int>(left < X::kWidth ? left : X::kWidth);
  std::int64_t tiles = (line.pixels + kMost - 1) / kMost;
  for (std::int64_t pixel = 0; tiles > 0; --tiles) {
    const auto count = static_cast<int>((line.pixels - pixel + tiles - 1) / tiles);
    tile_of<X, kMost, V, Add>(count, line, lane, pixel, last);
    pixel += count;
  }
}

/// Adds line k of the image to the upper results, the lower ones or both.
template <int P, bool Upper, bool Lower>
[[gnu::always_inline]] inline void add_image_line(const ConvLinePair& pair, std::int64_t k,
                                                  std::int64_t pixel, Narrow::Raw (&upper)[P],
                                                  Narrow::Raw (&lower)[P]) {
  constexpr int kBases = (P + 3) / 4;
  const PixelStep step(pair.step);
  const std::int64_t kernel_row = pair.run * Narrow::kWidth;
  const float* weights = pair.weights.data + k * kernel_row;
  const float* bases[kBases];
  for (int b = 0; b < kBases; ++b) {
    bases[b] = pair.input + (pair.shift + k * pair.row_step + (pixel + 4 * b) * pair.step);
    asm("" : "+r"(bases[b]));
  }
  for (std::int64_t e = 0; e < pair.run; ++e, weights += Narrow::kWidth) {
    const Narrow::Raw row = Upper ? Narrow::load(weights) : Narrow::zero();
    const Narrow::Raw row_above = Lower ? Narrow::load(weights - kernel_row) : Narrow::zero();
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      Narrow::Raw x = Narrow::all(step.at(bases[p / 4], p % 4));
#ifdef __x86_64__
      if (Upper && Lower) asm("" : "+v"(x));  // or it would be loaded twice
#endif
      if (Upper) upper[p] = Narrow::fma(x, row, upper[p]);
      if (Lower) lower[p] = Narrow::fma(x, row_above, lower[p]);
    }
#pragma GCC unroll 4
    for (int b = 0; b < kBases; ++b) ++bases[b];
  }
}

template <int P>
void pair_tile(const ConvLinePair& pair, std::int64_t pixel) {
  const int lanes = static_cast<int>(pair.weights.lanes);
  Narrow::Raw upper[P], lower[P];
  const Narrow::Raw start = Narrow::load(pair.bias);
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) upper[p] = lower[p] = start;
  const std::int64_t common = pair.next_first < pair.end ? pair.end : pair.next_first;
  std::int64_t k = pair.first;
  for (; k < pair.next_first && k < pair.end; ++k) {
    add_image_line<P, true, false>(pair, k, pixel, upper, lower);
  }
  for (k = pair.next_first; k < common; ++k) {
    add_image_line<P, true, true>(pair, k, pixel, upper, lower);
  }
  for (; k < pair.next_end; ++k) {
    add_image_line<P, false, true>(pair, k, pixel, upper, lower);
  }
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
    Narrow::store(pair.out + (pixel + p) * pair.out_step, upper[p], lanes);
    Narrow::store(pair.next_out + (pixel + p) * pair.out_step, lower[p], lanes);
  }
}

template <int P>
void pair_tile_of(int pixels, const ConvLinePair& pair, std::int64_t pixel) {
  if constexpr (P > 1) {
    if (pixels < P) return pair_tile_of<P - 1>(pixels, pair, pixel);
  }
  pair_tile<P>(pair, pixel);
}

void store_pair(const ConvLinePair& pair) {
  constexpr int kMost = kVectorRegisters == 32 ? 14 : 6;
  std::int64_t tiles = (pair.pixels + kMost - 1) / kMost;
  for (std::int64_t pixel = 0; tiles > 0; --tiles) {
    const auto count = static_cast<int>((pair.pixels - pixel + tiles - 1) / tiles);
    pair_tile_of<kMost>(count, pair, pixel);
    pixel += count;
  }
}

template <int V, bool Add>
void panel_of(std::int64_t width, const ConvLine& line, std::int64_t lane) {
  if constexpr (V > 1) {
    if (width < V * Wide::kWidth) return panel_of<V - 1, Add>(width, line, lane);
  } else if (width < Wide::kWidth) {
    return panel_line<Narrow, 1, Add>(line, lane);
  }
  panel_line<Wide, V, Add>(line, lane);
}

template <bool Add>
void run_line(const ConvLine& line) {
  constexpr int kMost = Add ? 2 : kStoredVectors;
  for (std::int64_t lane = 0; lane < line.weights.lanes;) {
    const std::int64_t width = panel_width<kMost>(line.weights.lanes - lane);
    panel_of<kMost, Add>(width, line, lane);
    lane += width;
  }
}

/// The sums of E elements from `element` on and one panel of lanes.
template <class X, int E, int V>
void outer_tile(const OuterSums& b, std::int64_t element, std::int64_t lane, int last,
                std::int64_t sums_step) {
  typename X::Raw sums[E][V];
  float* to = b.sums + element * sums_step + lane;
#pragma GCC unroll 32
  for (int e = 0; e < E; ++e) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sums[e][v] = X::load(to + e * sums_step + v * X::kWidth);
  }
  // Lanes beyond the last hold values further on, which nobody reads; but the vectors of the last
  // pixels must not reach beyond the line.
  const std::int64_t whole = b.pixels - (X::kWidth - last + b.vector_step - 1) / b.vector_step;
  for (std::int64_t y = 0; y < b.rows; ++y) {
    const float* scalars = b.scalars + y * b.row_step + element;
    const float* vectors = b.vectors + y * b.vector_row_step + lane;
    for (std::int64_t p = 0; p < b.pixels; ++p, scalars += b.step, vectors += b.vector_step) {
      typename X::Raw row[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        const bool part = v == V - 1 && p >= whole;
        row[v] = part ? X::load(vectors + v * X::kWidth, last) : X::load(vectors + v * X::kWidth);
      }
#pragma GCC unroll 32
      for (int e = 0; e < E; ++e) {
        const typename X::Raw value = X::all(scalars[e]);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) sums[e][v] = X::fma(value, row[v], sums[e][v]);
      }
    }
  }
#pragma GCC unroll 32
  for (int e = 0; e < E; ++e) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) X::store(to + e * sums_step + v * X::kWidth, sums[e][v]);
  }
}

template <class X, int E, int V>
void outer_tile_of(int elements, const OuterSums& b, std::int64_t element, std::int64_t lane,
                   int last, std::int64_t sums_step) {
  if constexpr (E > 1) {
    if (elements < E) {
      return outer_tile_of<X, E - 1, V>(elements, b, element, lane, last, sums_step);
    }
  }
  outer_tile<X, E, V>(b, element, lane, last, sums_step);
}

template <class X, int V>
void outer_panel(const OuterSums& b, std::int64_t lane, std::int64_t sums_step) {
  constexpr int kMost = most_elements(V);
  const std::int64_t left = b.lanes - lane - (V - 1) * X::kWidth;
  const int last = static_cast<int>(left < X::kWidth ? left : X::kWidth);
  std::int64_t tiles = (b.elements + kMost - 1) / kMost;
  for (std::int64_t element = 0; tiles > 0; --tiles) {
    const auto count = static_cast<int>((b.elements - element + tiles - 1) / tiles);
    outer_tile_of<X, kMost, V>(count, b, element, lane, last, sums_step);
    element += count;
  }
}

void add_outer(const OuterSums& b) {
  std::int64_t sums_step = 0;
  while (sums_step < b.lanes) sums_step += panel_width<2>(b.lanes - sums_step);
  for (std::int64_t lane = 0; lane < b.lanes;) {
    const std::int64_t width = panel_width<2>(b.lanes - lane);
    if (width == 2 * Wide::kWidth) {
      outer_panel<Wide, 2>(b, lane, sums_step);
    } else if (width == Wide::kWidth) {
      outer_panel<Wide, 1>(b, lane, sums_step);
    } else {
      outer_panel<Narrow, 1>(b, lane, sums_step);
    }
    lane += width;
  }
}

}  // namespace

extern const DirectConvLoops direct_conv_kernels = {panel_width<kStoredVectors>,
                                                    panel_width<2>,
                                                    run_line<false>,
                                                    store_pair,
                                                    Narrow::kWidth,
                                                    run_line<true>,
                                                    add_outer};

}  // namespace facula::cpu::FACULA_ISA
