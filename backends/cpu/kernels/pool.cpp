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

/// Where x is larger than `best`, takes it and notes the position.
template <class T>
[[gnu::always_inline]] inline void take_larger(const T* __restrict x, std::int64_t n,
                                               std::int32_t position, T* __restrict best,
                                               std::int32_t* __restrict at) {
  for (std::int64_t i = 0; i < n; ++i) {
    // Not "x > best": a NaN must win, and stay once it has.
    const bool wins = !(x[i] <= best[i]) & (best[i] == best[i]);
    best[i] = wins ? x[i] : best[i];
    at[i] = wins ? position : at[i];
  }
}

template <class T>
void max(const T* image, std::int64_t width, std::int64_t channels, const PoolWindow& window,
         T* __restrict out, std::int32_t* __restrict index) {
  bool first = true;
  for_positions(window, width, [&](std::int64_t position) {
    const T* __restrict x = image + position * channels;
    const auto at = static_cast<std::int32_t>(position);
    if (!first) return take_larger(x, channels, at, out, index);
    for (std::int64_t c = 0; c < channels; ++c) {
      out[c] = x[c];
      index[c] = at;
    }
    first = false;
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

/// Fewer are pooled for several windows together.
constexpr int kFewChannels = 16;

/// Copies `count` runs of `channels` elements, `step` apart, to one place. Whole vectors go, as
/// long as the next run overwrites what is too much.
template <class T>
[[gnu::always_inline]] inline void side_by_side(const T* from, std::int64_t step,
                                                std::int64_t channels, std::int64_t count,
                                                T* __restrict to) {
  constexpr std::int64_t kRun = 8;
  std::int64_t i = 0;
  if (channels <= kRun && step >= kRun) {
    for (; i + 1 < count; ++i) {
      __builtin_memcpy(to + i * channels, from + i * step, kRun * sizeof(T));
    }
  }
  for (; i < count; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) to[i * channels + c] = from[i * step + c];
  }
}

/// Channels_last windows whose channels do not fill a vector: the elements at one place of
/// neighbouring windows are put side by side.
template <class T>
void max_line_of_few_channels(const T* image, std::int64_t width, std::int64_t channels,
                              const PoolLine& line, T* out, std::int32_t* index) {
  constexpr int kBlock = 256;
  T beside[kBlock + kFewChannels];
  std::int32_t positions[kBlock];  // of windows, from the block's first
  const std::int64_t windows = kBlock / channels;
  for (std::int64_t i = 0; i < windows && i < line.count; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      positions[i * channels + c] = static_cast<std::int32_t>(i * line.stride);
    }
  }
  for (std::int64_t begin = 0; begin < line.count; begin += windows) {
    const std::int64_t count = line.count - begin < windows ? line.count - begin : windows;
    const std::int64_t n = count * channels;
    T* best = out + begin * channels;
    std::int32_t* __restrict at = index + begin * channels;
    const PoolWindow first{
        line.first_row, line.rows,
        line.row_step,  static_cast<std::int32_t>(line.first_column + begin * line.stride),
        line.columns,   line.column_step};
    bool empty = true;
    for_positions(first, width, [&](std::int64_t position) {
      T* to = empty ? best : beside;
      side_by_side(image + position * channels, line.stride * channels, channels, count, to);
      if (empty) {
        for (std::int64_t i = 0; i < n; ++i) at[i] = static_cast<std::int32_t>(position);
      } else {
        take_larger(beside, n, static_cast<std::int32_t>(position), best, at);
      }
      empty = false;
    });
    for (std::int64_t i = 0; i < n; ++i) at[i] += positions[i];
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
void max_line(const T* image, std::int64_t width, std::int64_t channels, const PoolLine& line,
              T* out, std::int32_t* index) {
  if (channels == 1) return max_line(image, width, line, out, index);
  if (channels < kFewChannels) {
    return max_line_of_few_channels(image, width, channels, line, out, index);
  }
  for (std::int64_t i = 0; i < line.count; ++i) {
    const PoolWindow window{
        line.first_row, line.rows,
        line.row_step,  static_cast<std::int32_t>(line.first_column + i * line.stride),
        line.columns,   line.column_step};
    max(image, width, channels, window, out + i * channels, index + i * channels);
  }
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
