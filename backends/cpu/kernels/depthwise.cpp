#include "backends/cpu/kernels/depthwise.h"

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

/// Pixels whose results are summed up at the same time.
constexpr int kMostPixels = 8;

/// Addresses of up to kMostPixels neighbouring pixels from few registers.
struct PixelStep {
  std::int64_t one, three;  // bytes

  explicit PixelStep(std::int64_t step) : one(step * 4), three(step * 12) {
    asm("" : "+r"(one), "+r"(three));  // or the compiler would keep an address for every pixel
  }
  [[gnu::always_inline]] const float* at(const float* const (&fours)[2], int i) const {
    const auto* bytes = reinterpret_cast<const char*>(fours[i / 4]);
    const int k = i % 4;
    return reinterpret_cast<const float*>(bytes + (k == 0   ? 0
                                                   : k == 1 ? one
                                                   : k == 2 ? 2 * one
                                                            : three));
  }
};

template <int P, bool Whole>
[[gnu::always_inline]] inline void store_vector(const DepthwiseLine& line, const PixelStep& step,
                                                std::int64_t pixel, std::int64_t c, int lanes) {
  Raw sums[P];
  const Raw start = line.bias ? load<Whole>(line.bias + c, lanes) : X::zero();
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) sums[p] = start;
  const std::int64_t at = line.shift + pixel * line.step + c;
  for (std::int64_t i = 0; i < line.rows.count; ++i) {
    const std::int64_t row = at + line.rows.offsets[i];
    const float* weights = line.weights + line.rows.weights[i] + c;
    for (std::int64_t j = 0; j < line.columns.count; ++j) {
      const float* first = line.input + (row + line.columns.offsets[j]);
      const float* fours[2] = {first, first + (P > 4 ? 4 * line.step : 0)};
      const Raw weight = load<Whole>(weights + line.columns.weights[j], lanes);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        sums[p] = X::fma(load<Whole>(step.at(fours, p), lanes), weight, sums[p]);
      }
    }
  }
  float* out = line.out + pixel * line.out_step + c;
  if (Whole && line.stream) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) X::stream(out + p * line.out_step, sums[p]);
  } else {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) store<Whole>(out + p * line.out_step, sums[p], lanes);
  }
}

template <int P>
void store_pixels(int pixels, const DepthwiseLine& line, std::int64_t pixel) {
  if constexpr (P > 1) {
    if (pixels < P) return store_pixels<P - 1>(pixels, line, pixel);
  }
  const PixelStep step(line.step);
  std::int64_t c = 0;
  for (; c + kWidth <= line.channels; c += kWidth) {
    store_vector<P, true>(line, step, pixel, c, kWidth);
  }
  if (c < line.channels) {
    store_vector<P, false>(line, step, pixel, c, static_cast<int>(line.channels - c));
  }
}

/// Groups of equal size, as far as possible: a small last one would wait for its own sums.
void store_line(const DepthwiseLine& line) {
  std::int64_t groups = (line.pixels + kMostPixels - 1) / kMostPixels;
  for (std::int64_t pixel = 0; groups > 0; --groups) {
    const auto count = static_cast<int>((line.pixels - pixel + groups - 1) / groups);
    store_pixels<kMostPixels>(count, line, pixel);
    pixel += count;
  }
}

/// The sums of R x K taps in V vectors of channels.
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
  const std::int64_t line = s.width * s.pixel_step, step = s.column_stride * s.pixel_step;
  const std::int64_t tap_step = s.column_dilation * s.pixel_step;
  for (std::int64_t y = 0; y < s.lines; ++y) {
    const float* rows[R];
#pragma GCC unroll 3
    for (int i = 0; i < R; ++i) {
      const std::int64_t row = s.first_row + y * s.row_stride + i * s.row_dilation;
      rows[i] = (row >= 0 && row < s.height ? s.image + row * line : s.zeros) + c;
    }
    const float* grads = s.grad + y * s.pixels * s.pixel_step + c;
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
    const auto add_outer = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
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
  constexpr int V = R * K >= 6 ? 1 : R * K >= 3 ? 2 : 4;
  std::int64_t c = 0;
  for (; c + V * kWidth <= s.channels; c += V * kWidth) add_vectors<R, K, V, true>(s, c, kWidth);
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
