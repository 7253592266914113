#include "backends/cpu/kernels/pool.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Calls body(position) for every position of a window, in row-major order.
template <class Body>
[[gnu::always_inline]] inline void for_positions(const PoolWindow& w, std::int64_t width,
                                                 Body body) {
  for (int r = 0; r < w.rows; ++r) {
    const std::int64_t row = (w.first_row + std::int64_t{r} * w.row_step) * width;
    for (int c = 0; c < w.columns; ++c) {
      body(row + w.first_column + std::int64_t{c} * w.column_step);
    }
  }
}

template <class T>
void max(const T* image, std::int64_t width, std::int64_t channels, const PoolWindow& window,
         T* __restrict out, std::int32_t* __restrict index) {
  bool first = true;
  for_positions(window, width, [&](std::int64_t position) {
    const T* __restrict x = image + position * channels;
    const auto at = static_cast<std::int32_t>(position);
    if (first) {
      for (std::int64_t c = 0; c < channels; ++c) {
        out[c] = x[c];
        index[c] = at;
      }
      first = false;
      return;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      // Not "x > out": a NaN must win, and stay once it has.
      const bool wins = !(x[c] <= out[c]) & (out[c] == out[c]);
      out[c] = wins ? x[c] : out[c];
      index[c] = wins ? at : index[c];
    }
  });
}

template <class T>
void average(const T* image, std::int64_t width, std::int64_t channels, const PoolWindow& window,
             T scale, T* __restrict out) {
  for (std::int64_t c = 0; c < channels; ++c) out[c] = 0;
  for_positions(window, width, [&](std::int64_t position) {
    const T* __restrict x = image + position * channels;
    for (std::int64_t c = 0; c < channels; ++c) out[c] += x[c];
  });
  for (std::int64_t c = 0; c < channels; ++c) out[c] *= scale;
}

template <class T>
void average_backward(const T* grad, std::int64_t width, std::int64_t channels,
                      const PoolWindow& window, T scale, T* gradient) {
  for_positions(window, width, [&](std::int64_t position) {
    T* __restrict target = gradient + position * channels;
    for (std::int64_t c = 0; c < channels; ++c) target[c] += grad[c] * scale;
  });
}

template <class T>
constexpr PoolLoops<T> loops() {
  return {max<T>, average<T>, average_backward<T>};
}

}  // namespace

extern const PoolKernels pool_kernels = {loops<float>(), loops<double>()};

}  // namespace facula::cpu::FACULA_ISA
