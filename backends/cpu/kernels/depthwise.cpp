#include "backends/cpu/kernels/depthwise.h"

#include <cstdlib>

#include "backends/cpu/kernels/simd.h"

namespace facula::cpu::FACULA_ISA {
namespace {

using X = Vec<float>;
using Raw = X::Raw;
constexpr int kWidth = X::kWidth;

/// Vectors are whole everywhere but at the last channels.
template <bool Whole>
[[gnu::always_inline]] inline Raw load(const float* p, int lanes) {
  return Whole ? X::load(p) : X::load(p, lanes);
}

template <bool Whole>
[[gnu::always_inline]] inline void store(float* p, Raw value, int lanes) {
  Whole ? X::store(p, value) : X::store(p, value, lanes);
}

/// Asks for an element, which may lie beyond the end of the tensor, in the second-level cache.
template <bool Write>
[[gnu::always_inline]] inline void fetch(const float* from, std::int64_t offset) {
  const auto address =
      reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(offset) * 4;
  // Pointers must not leave their tensor; numbers may.
  __builtin_prefetch(reinterpret_cast<const void*>(address), Write, 2);
}

[[gnu::always_inline]] inline void fetch(const float* image, std::int64_t at,
                                         const DepthwiseAhead& ahead) {
  for (std::int64_t i = 0; i < ahead.lines; ++i) {
    for (std::int64_t j = 0; j < ahead.pixels; ++j) {
      fetch<false>(image, at + ahead.distance + i * ahead.line + j * ahead.pixel);
    }
  }
}

/// Addresses of neighbouring pixels from few registers: of each of four, from that of the first.
struct PixelStep {
  std::int64_t one, three;  // bytes

  explicit PixelStep(std::int64_t step) : one(step * 4), three(step * 12) {
    asm("" : "+r"(one), "+r"(three));  // or the compiler would keep an address for every pixel
  }
  [[gnu::always_inline]] const float* at(const float* first, int i) const {
    const auto* bytes = reinterpret_cast<const char*>(first);
    return reinterpret_cast<const float*>(bytes + (i == 0   ? 0
                                                   : i == 1 ? one
                                                   : i == 2 ? 2 * one
                                                            : three));
  }
};

/// Stores the results of P pixels, and asks for what the next line reads and writes.
template <int P, bool Whole>
[[gnu::always_inline]] inline void finish_vector(const DepthwiseLine& line, const Raw (&sums)[P],
                                                 std::int64_t pixel, std::int64_t c, int lanes) {
  const std::int64_t at = line.shift + pixel * line.step + c;
  float* out = line.out + pixel * line.out_step + c;
  if (line.ahead.lines) {
    for (int p = 0; p < P; ++p) fetch(line.input, at + p * line.step, line.ahead);
  }
  if (line.out_ahead) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) fetch<true>(out + p * line.out_step, line.out_ahead);
  }
  if (Whole && line.stream) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) X::stream(out + p * line.out_step, sums[p]);
  } else {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) store<Whole>(out + p * line.out_step, sums[p], lanes);
  }
}

/// The results of P pixels in V vectors of channels. R rows and K columns of taps, if they are
/// known, make straight code; 0 stands for any number.
template <int R, int K, int P, int V, bool Whole>
[[gnu::always_inline]] inline void store_vectors(const DepthwiseLine& line, const PixelStep& step,
                                                 std::int64_t pixel, std::int64_t c, int lanes) {
  Raw sums[V][P];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Raw start = line.bias ? load<Whole>(line.bias + c + v * kWidth, lanes) : X::zero();
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sums[v][p] = start;
  }
  const std::int64_t rows = R ? R : line.rows.count, columns = K ? K : line.columns.count;
  const std::int64_t at = line.shift + pixel * line.step + c;
#pragma GCC unroll 3
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = at + line.rows.offsets[i];
    const float* weights = line.weights + line.rows.weights[i] + c;
#pragma GCC unroll 3
    for (std::int64_t j = 0; j < columns; ++j) {
      const float* first = line.input + (row + line.columns.offsets[j]);
      const float* fours[2] = {first, first + (P > 4 ? 4 * line.step : 0)};
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Raw weight = load<Whole>(weights + line.columns.weights[j] + v * kWidth, lanes);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) {
          const float* value = step.at(fours[p / 4], p % 4) + v * kWidth;
          sums[v][p] = X::fma(load<Whole>(value, lanes), weight, sums[v][p]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    finish_vector<P, Whole>(line, sums[v], pixel, c + v * kWidth, lanes);
  }
}

template <int R, int K, int P>
void store_pixels(const DepthwiseLine& given, std::int64_t pixel) {
  const DepthwiseLine line = given;  // or stores might change it
  const PixelStep step(line.step);
  std::int64_t c = 0;
  // Of few pixels a sum would wait for the one before it, tap after tap.
  constexpr int kVectors = R == 0 && P <= 3 ? (P == 1 ? 4 : 2) : 1;
  for (; c + kVectors * kWidth <= line.channels; c += kVectors * kWidth) {
    store_vectors<R, K, P, kVectors, true>(line, step, pixel, c, kWidth);
  }
  for (; kVectors > 1 && c + kWidth <= line.channels; c += kWidth) {
    store_vectors<R, K, P, 1, true>(line, step, pixel, c, kWidth);
  }
  if (c < line.channels) {
    store_vectors<0, 0, P, 1, false>(line, step, pixel, c, static_cast<int>(line.channels - c));
  }
}

/// The results of P pixels next to each other from K columns of taps next to each other, in one
/// vector of channels: every pixel of a row is read once. If they are a whole line, the pixels that
/// taps meet before and after it do not exist. 0 rows stand for any number.
template <int R, int K, int P, bool Ascending, bool Line, bool Whole>
[[gnu::always_inline]] inline void store_dense_vector(const DepthwiseLine& line, std::int64_t pixel,
                                                      std::int64_t c, int lanes) {
  constexpr int kFirst = Line ? 1 : 0, kEnd = P + K - 1 - kFirst;
  Raw sums[P];
  const Raw start = line.bias ? load<Whole>(line.bias + c, lanes) : X::zero();
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) sums[p] = start;
  // Pixels go in the order of the taps of every result.
  const std::int64_t step = Ascending ? line.step : -line.step;
  const std::int64_t at = line.shift + (pixel + (Ascending ? 0 : P - 1)) * line.step +
                          line.columns.offsets[0] + kFirst * step + c;
  const PixelStep steps(step);
  const std::int64_t rows = R ? R : line.rows.count;
#pragma GCC unroll 3
  for (std::int64_t i = 0; i < rows; ++i) {
    Raw weights[K];
#pragma GCC unroll 7
    for (int j = 0; j < K; ++j) {
      weights[j] =
          load<Whole>(line.weights + line.rows.weights[i] + line.columns.weights[j] + c, lanes);
    }
    const float* four = line.input + (at + line.rows.offsets[i]);
#pragma GCC unroll 14
    for (int k = kFirst; k < kEnd; ++k) {
      const int place = (k - kFirst) % 4;
      if (place == 0 && k > kFirst) four += 4 * step;
      const Raw value = load<Whole>(steps.at(four, place), lanes);
#pragma GCC unroll 7
      for (int j = 0; j < K; ++j) {
        const int p = Ascending ? k - j : P - 1 - (k - j);
        if (p >= 0 && p < P) sums[p] = X::fma(value, weights[j], sums[p]);
      }
    }
  }
  finish_vector<P, Whole>(line, sums, pixel, c, lanes);
}

/// The same for the channels from c on, fewer than a vector.
template <int K, int P, bool Ascending, bool Line>
void store_last_channels(const DepthwiseLine& line, std::int64_t pixel, std::int64_t c) {
  const int lanes = static_cast<int>(line.channels - c);
  if constexpr (Line) {
    store_dense_vector<0, K, P, Ascending, true, false>(line, pixel, c, lanes);
  } else {
    store_vectors<0, 0, P, 1, false>(line, PixelStep(line.step), pixel, c, lanes);
  }
}

template <int R, int K, int P, bool Ascending, bool Line>
void store_dense_pixels(const DepthwiseLine& given, std::int64_t pixel) {
  const DepthwiseLine line = given;  // or stores might change it
  std::int64_t c = 0;
  for (; c + kWidth <= line.channels; c += kWidth) {
    store_dense_vector<R, K, P, Ascending, Line, true>(line, pixel, c, kWidth);
  }
  if (c < line.channels) store_last_channels<K, P, Ascending, Line>(line, pixel, c);
}

/// Those of `count` groups of P pixels: returns the first pixel after them.
template <int K, int P>
std::int64_t store_dense(const DepthwiseLine& line, std::int64_t pixel, std::int64_t count) {
  const bool ascending = line.columns.offsets[0] < line.columns.offsets[1];
  for (; count > 0; --count, pixel += P) {
    ascending ? store_dense_pixels<0, K, P, true, false>(line, pixel)
              : store_dense_pixels<0, K, P, false, false>(line, pixel);
  }
  return pixel;
}

/// Whether columns of taps are as far apart as the pixels that results next to each other meet.
bool is_dense(const DepthwiseLine& line) {
  const DepthwiseTaps& columns = line.columns;
  return columns.count > 1 && std::abs(columns.offsets[1] - columns.offsets[0]) == line.step;
}

/// The first results of a line whose taps are dense: returns how many.
std::int64_t store_dense(const DepthwiseLine& line) {
  const std::int64_t pixels = line.pixels, eights = pixels / 8;
  if (line.columns.count == 5) return store_dense<5, 8>(line, 0, eights);
  if (line.columns.count == 7) return store_dense<7, 8>(line, 0, eights);
  if (line.columns.count != 3) return 0;
  // Images are often a power of two wide, or seven times that, less one pixel at each border.
  constexpr std::int64_t kSixes[8] = {0, 0, 3, 3, 2, 2, 1, 1};
  const std::int64_t sixes = kSixes[pixels % 8];
  if (6 * sixes > pixels) return store_dense<3, 8>(line, 0, eights);
  return store_dense<3, 6>(line, store_dense<3, 8>(line, 0, (pixels - 6 * sixes) / 8), sixes);
}

template <int R, int K>
void store_taps(const DepthwiseLine& line) {
  // Pixels together share weights and what they meet. With strides they share less of that, and
  // from memory fewer are better: it is read more in order.
  const bool strided = line.step > line.out_step;
  const std::int64_t most = !strided ? 8 : line.stream ? 2 : 3;
  std::int64_t pixel = is_dense(line) ? store_dense(line) : 0;
  if constexpr (K != 3) {
    for (; most >= 8 && pixel + 8 <= line.pixels; pixel += 8) store_pixels<R, K, 8>(line, pixel);
  }
  for (; most >= 3 && pixel + 3 <= line.pixels; pixel += 3) store_pixels<R, K, 3>(line, pixel);
  for (; pixel + 2 <= line.pixels; pixel += 2) store_pixels<R, K, 2>(line, pixel);
  for (; pixel < line.pixels; ++pixel) store_pixels<R, K, 1>(line, pixel);
}

/// The results of a line of P pixels, three columns of taps and at most as many rows.
template <int P>
void store_narrow(const DepthwiseLine& line) {
  using Store = void (*)(const DepthwiseLine&, std::int64_t);
  constexpr Store kRows[kDepthwiseBlock][2] = {
      {store_dense_pixels<1, 3, P, false, true>, store_dense_pixels<1, 3, P, true, true>},
      {store_dense_pixels<2, 3, P, false, true>, store_dense_pixels<2, 3, P, true, true>},
      {store_dense_pixels<3, 3, P, false, true>, store_dense_pixels<3, 3, P, true, true>}};
  kRows[line.rows.count - 1][line.columns.offsets[0] < 0](line, 0);
}

void store_line(const DepthwiseLine& line) {
  if (line.narrow) {
    return line.pixels == 4   ? store_narrow<4>(line)
           : line.pixels == 7 ? store_narrow<7>(line)
                              : store_narrow<8>(line);
  }
  using Store = void (*)(const DepthwiseLine&);
  constexpr Store kTaps[kDepthwiseBlock][kDepthwiseBlock] = {
      {store_taps<1, 1>, store_taps<1, 2>, store_taps<1, 3>},
      {store_taps<2, 1>, store_taps<2, 2>, store_taps<2, 3>},
      {store_taps<3, 1>, store_taps<3, 2>, store_taps<3, 3>},
  };
  const std::int64_t rows = line.rows.count, columns = line.columns.count;
  bool known = rows > 0 && rows <= kDepthwiseBlock && columns > 0 && columns <= kDepthwiseBlock;
  // Three columns apart from each other: for many pixels at once only the code of any number is.
  if (columns == 3 && line.step <= line.out_step && !is_dense(line)) known = false;
  (known ? kTaps[rows - 1][columns - 1] : store_taps<0, 0>)(line);
}

/// The sums of R x K taps in V vectors of channels. They stay in registers from the first line to
/// the last, hence one function.
template <int R, int K, int V, bool Whole>
[[gnu::always_inline]] inline void add_vectors(const DepthwiseSums& s, std::int64_t c, int lanes) {
  Raw sums[R][K][V];
#pragma GCC unroll 3
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < K; ++j) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[i][j][v] = X::zero();
    }
  }
  const std::int64_t line = s.width * s.pixel_step;
  const std::int64_t step = s.column_stride * s.pixel_step;
  const std::int64_t tap_step = s.column_dilation * s.pixel_step;
  for (std::int64_t y = 0; y < s.lines; ++y) {
    const float* rows[R];
#pragma GCC unroll 3
    for (int i = 0; i < R; ++i) {
      const std::int64_t row = s.first_row + y * s.row_stride + i * s.row_dilation;
      rows[i] = (row >= 0 && row < s.height ? s.image + row * line : s.zeros) + c;
    }
    const float* grads = s.grad + y * s.grad_line + c;
    const auto add = [&](const float* grad, std::int64_t at, int j) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Raw g = load<Whole>(grad + v * kWidth, lanes);
#pragma GCC unroll 3
        for (int i = 0; i < R; ++i) {
          sums[i][j][v] = X::fma(load<Whole>(rows[i] + at + v * kWidth, lanes), g, sums[i][j][v]);
        }
      }
    };
    const std::int64_t place =
        (s.first_row + y * s.row_stride) * line + s.first_column * s.pixel_step + c;
    const auto fetch_ahead = [&](std::int64_t p) __attribute__((always_inline)) {
      if (!s.ahead.lines) return;
      for (int v = 0; v < V; ++v) {
        fetch<false>(grads + p * s.pixel_step + v * kWidth, s.grad_ahead);
        fetch(s.image, place + p * step + v * kWidth, s.ahead);
      }
    };
    const auto add_outer = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        fetch_ahead(p);
        const std::int64_t first = s.first_column + p * s.column_stride;
#pragma GCC unroll 3
        for (int j = 0; j < K; ++j) {
          const std::int64_t column = first + j * s.column_dilation;
          if (column < 0 || column >= s.width) continue;
          add(grads + p * s.pixel_step, column * s.pixel_step, j);
        }
      }
    };
    add_outer(0, s.inner_begin);
    std::int64_t at = (s.first_column + s.inner_begin * s.column_stride) * s.pixel_step;
    const float* grad = grads + s.inner_begin * s.pixel_step;
    for (std::int64_t p = s.inner_begin; p < s.inner_end; ++p) {
      fetch_ahead(p);
#pragma GCC unroll 3
      for (int j = 0; j < K; ++j) add(grad, at + j * tap_step, j);
      at += step;
      grad += s.pixel_step;
    }
    add_outer(s.inner_end, s.pixels);
  }
#pragma GCC unroll 3
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < K; ++j) {
      float* to = s.sums + i * s.sums_row_step + j * s.sums_column_step + c;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Raw before = load<Whole>(to + v * kWidth, lanes);
        store<Whole>(to + v * kWidth, X::add(before, sums[i][j][v]), lanes);
      }
    }
  }
}

template <int R, int K>
void add_block(const DepthwiseSums& s) {
  // As many vectors as it takes for sums not to wait for themselves.
  constexpr int kVectors = R * K >= 6 ? 1 : R * K >= 3 ? 2 : 4;
  std::int64_t c = 0;
  for (; c + kVectors * kWidth <= s.channels; c += kVectors * kWidth) {
    add_vectors<R, K, kVectors, true>(s, c, kWidth);
  }
  for (; c + kWidth <= s.channels; c += kWidth) add_vectors<R, K, 1, true>(s, c, kWidth);
  if (c < s.channels) add_vectors<R, K, 1, false>(s, c, static_cast<int>(s.channels - c));
}

void add_products(const DepthwiseSums& s) {
  using Add = void (*)(const DepthwiseSums&);
  constexpr Add kBlocks[kDepthwiseBlock][kDepthwiseBlock] = {
      {add_block<1, 1>, add_block<1, 2>, add_block<1, 3>},
      {add_block<2, 1>, add_block<2, 2>, add_block<2, 3>},
      {add_block<3, 1>, add_block<3, 2>, add_block<3, 3>},
  };
  kBlocks[s.rows - 1][s.columns - 1](s);
}

}  // namespace

extern const DepthwiseLoops depthwise_kernels = {store_line, add_products};

}  // namespace facula::cpu::FACULA_ISA
