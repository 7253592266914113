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

/// Rows, columns and stride are constants where they are usual, so that windows are unrolled.
template <class T, int kRows, int kColumns, int kStride>
[[gnu::always_inline]] inline void max_line_of(const T* __restrict plane, std::int64_t width,
                                               const PoolLine& line, T* __restrict out,
                                               std::int32_t* __restrict index) {
  const std::int64_t rows = kRows ? kRows : line.rows, columns = kColumns ? kColumns : line.columns;
  const std::int64_t stride = kStride ? kStride : line.stride;
  const std::int64_t down = kRows ? width : line.row_step * width;
  const std::int64_t right = kColumns ? 1 : line.column_step;
  const std::int64_t first = line.first_row * width + line.first_column;
  for (std::int64_t i = 0; i < line.count; ++i) {
    std::int64_t at = first + i * stride;
    T best = plane[at];
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t position = first + i * stride + r * down + c * right;
        const T x = plane[position];
        const bool wins = !(x <= best) & (best == best);
        best = wins ? x : best;
        at = wins ? position : at;
      }
    }
    out[i] = best;
    index[i] = static_cast<std::int32_t>(at);
  }
}

template <class T>
void max_line(const T* plane, std::int64_t width, const PoolLine& line, T* out,
              std::int32_t* index) {
  const bool square = line.rows == line.columns && line.row_step == 1 && line.column_step == 1;
  if (square && line.rows == 2 && line.stride == 2) {
    return max_line_of<T, 2, 2, 2>(plane, width, line, out, index);
  }
  if (square && line.rows == 3 && line.stride == 2) {
    return max_line_of<T, 3, 3, 2>(plane, width, line, out, index);
  }
  max_line_of<T, 0, 0, 0>(plane, width, line, out, index);
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
  return {max<T>, max_line<T>, average<T>, average_backward<T>};
}

}  // namespace

extern const PoolKernels pool_kernels = {loops<float>(), loops<double>()};

}  // namespace facula::cpu::FACULA_ISA
