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

template <class T>
struct PositionType;
template <>
struct PositionType<float> {
  using type = std::int32_t;
};
template <>
struct PositionType<double> {
  using type = std::int64_t;
};

/// Maxima of a window of at most kLanes channels. If Whole, vectors are read and written whole,
/// although that is too much; else exactly.
template <class T, int kLanes, bool Whole>
[[gnu::always_inline]] inline void max_in_lanes(const T* image, std::int64_t width,
                                                std::int64_t channels, const PoolWindow& window,
                                                T* out, std::int32_t* index) {
  using Position = typename PositionType<T>::type;
  typedef T Values __attribute__((vector_size(kLanes * sizeof(T))));
  typedef Position Positions __attribute__((vector_size(kLanes * sizeof(T))));
  typedef std::int32_t Indices __attribute__((vector_size(kLanes * sizeof(std::int32_t))));
  const auto count = static_cast<std::size_t>(Whole ? kLanes : channels);
  Values best{};
  Positions at{};
  bool first = true;
  for_positions(window, width, [&](std::int64_t position) {
    Values x{};
    __builtin_memcpy(&x, image + position * channels, count * sizeof(T));
    const Positions wins = first ? Positions{} - 1 : ~(x <= best) & (best == best);
    best = wins ? x : best;
    at = wins ? Positions{} + static_cast<Position>(position) : at;
    first = false;
  });
  const Indices indices = __builtin_convertvector(at, Indices);
  __builtin_memcpy(out, &best, count * sizeof(T));
  __builtin_memcpy(index, &indices, count * sizeof(std::int32_t));
}

/// Channels_last windows of at most kLanes channels: whole vectors where the next windows overwrite
/// what is too much. kSize: height and width of the windows if known, else 0.
template <class T, int kLanes, int kSize>
void max_line_in_lanes(const T* image, std::int64_t width, std::int64_t channels,
                       const PoolLine& line, T* out, std::int32_t* index) {
  const std::int64_t whole = line.count - (kLanes - 1) / channels;
  PoolWindow window{line.first_row,    kSize ? kSize : line.rows,    line.row_step,
                    line.first_column, kSize ? kSize : line.columns, line.column_step};
  for (std::int64_t i = 0; i < line.count; ++i) {
    if (i < whole) {
      max_in_lanes<T, kLanes, true>(image, width, channels, window, out, index);
    } else {
      max_in_lanes<T, kLanes, false>(image, width, channels, window, out, index);
    }
    window.first_column += line.stride;
    out += channels;
    index += channels;
  }
}

template <class T, int kLanes>
void max_line_in_lanes(const T* image, std::int64_t width, std::int64_t channels,
                       const PoolLine& line, T* out, std::int32_t* index) {
  if (line.rows == 2 && line.columns == 2) {
    return max_line_in_lanes<T, kLanes, 2>(image, width, channels, line, out, index);
  }
  max_line_in_lanes<T, kLanes, 0>(image, width, channels, line, out, index);
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
  if (channels <= 8) return max_line_in_lanes<T, 8>(image, width, channels, line, out, index);
  if (channels <= 16) return max_line_in_lanes<T, 16>(image, width, channels, line, out, index);
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
