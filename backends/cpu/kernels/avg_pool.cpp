#include "backends/cpu/kernels/pool_windows.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Sums kept side by side where a window has many positions.
constexpr std::int64_t kSums = 64;

/// Calls body(first, count) for pieces of at most kSums out of n elements.
template <class Body>
[[gnu::always_inline]] inline void for_pieces(std::int64_t n, Body body) {
  for (std::int64_t i = 0; i < n; i += kSums) body(i, n - i < kSums ? n - i : kSums);
}

template <class T>
[[gnu::always_inline]] inline void add_to(double* __restrict sums, const T* __restrict x,
                                          std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(x[i]);
}

/// Adds n elements at each of some positions, `step` apart, to n sums. Four are added up before, as
/// conversions take longer than additions; their sum has hardly more error than one of them.
template <class T>
[[gnu::always_inline]] inline void add_positions(double* __restrict sums, const T* __restrict x,
                                                 std::int64_t positions, std::int64_t step,
                                                 std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 4 <= positions; i += 4, x += 4 * step) {
    for (std::int64_t k = 0; step == n && k < 4 * n; k += 64 / sizeof(T)) {
      __builtin_prefetch(x + k + 4096 / sizeof(T));
    }
    for (std::int64_t k = 0; k < n; ++k) {
      const T four = (x[k] + x[step + k]) + (x[2 * step + k] + x[3 * step + k]);
      sums[k] += static_cast<double>(four);
    }
  }
  for (; i < positions; ++i, x += step) add_to(sums, x, n);
}

/// The sum of n of them, by halves.
template <std::int64_t n>
[[gnu::always_inline]] inline double total(double* sums) {
  if constexpr (n == 1) {
    return sums[0];
  } else {
    add_to(sums, sums + n / 2, n / 2);
    return total<n / 2>(sums);
  }
}

/// The average of many positions, in double: float32 would lose digits. Rows are read one after the
/// other, or as one where they are whole.
template <class T>
void average_many(const T* image, std::int64_t width, std::int64_t channels,
                  const PoolWindow& window, T scale, T* __restrict out) {
  const bool whole = window.columns == width;
  const std::int64_t runs = whole ? 1 : window.rows;
  const std::int64_t length = whole ? window.rows * width : window.columns;
  const T* start = image + (window.first_row * width + window.first_column) * channels;
  if (channels == 1) {
    double sums[kSums] = {};
    for (std::int64_t r = 0; r < runs; ++r, start += width) {
      const std::int64_t positions = length / kSums;
      add_positions(sums, start, positions, kSums, kSums);
      add_to(sums, start + positions * kSums, length - positions * kSums);
    }
    *out = static_cast<T>(total<kSums>(sums) * scale);
    return;
  }
  for_pieces(channels, [&](std::int64_t first, std::int64_t n) {
    double sums[kSums] = {};
    for (std::int64_t r = 0; r < runs; ++r) {
      const T* run = start + r * width * channels + first;
      // Numbers that are known make straight code.
      if (n == kSums) {
        add_positions(sums, run, length, channels, kSums);
      } else if (n == kSums / 4) {
        add_positions(sums, run, length, channels, kSums / 4);
      } else {
        add_positions(sums, run, length, channels, n);
      }
    }
    for (std::int64_t c = 0; c < n; ++c) out[first + c] = static_cast<T>(sums[c] * scale);
  });
}

template <class T>
void average_few(const T* image, std::int64_t width, std::int64_t channels,
                 const PoolWindow& window, T scale, T* __restrict out) {
  for (std::int64_t c = 0; c < channels; ++c) out[c] = 0;
  for_positions(window, width, [&](std::int64_t position) {
    const T* __restrict x = image + position * channels;
    for (std::int64_t c = 0; c < channels; ++c) out[c] += x[c];
  });
  for (std::int64_t c = 0; c < channels; ++c) out[c] *= scale;
}

/// The same of windows of one channel.
template <class T>
void average_few(const T* plane, std::int64_t width, const PoolLine& line, T scale, T* out) {
  const bool grouped =
      for_groups<T>(line, [&]<int kLanes, int kStride>(std::int64_t i) FACULA_INLINED {
        typename Vector<T, kLanes>::Values sums{};
        for_positions(window_of(line, i), width, [&](std::int64_t position) FACULA_INLINED {
          typename Vector<T, kLanes>::Values x;
          load_strided<kStride>(plane + position, line.stride, x);
          sums += x;
        });
        sums *= scale;
        __builtin_memcpy(out + i, &sums, sizeof sums);
      });
  for (std::int64_t i = 0; !grouped && i < line.count; ++i) {
    T sum = 0;
    for_positions(window_of(line, i), width,
                  [&](std::int64_t position) FACULA_INLINED { sum += plane[position]; });
    out[i] = sum * scale;
  }
}

template <class T>
void average_line(const T* image, std::int64_t width, std::int64_t channels, const PoolLine& line,
                  T scale, T* out) {
  constexpr std::int64_t kFew = 64;  // so few that the error stays that of a few roundings
  const bool few = std::int64_t{line.rows} * line.columns <= kFew;
  if (few && channels == 1) return average_few(image, width, line, scale, out);
  for (std::int64_t i = 0; i < line.count; ++i, out += channels) {
    const PoolWindow window = window_of(line, i);
    if (few) {
      average_few(image, width, channels, window, scale, out);
    } else {
      average_many(image, width, channels, window, scale, out);
    }
  }
}

/// For one channel, place by place in the windows, from their ends on: windows in order.
template <class T>
void average_line_backward(const T* __restrict grad, std::int64_t width, const PoolLine& line,
                           T scale, T* gradient) {
  for (int r = 0; r < line.rows; ++r) {
    T* row = gradient + (line.first_row + r) * width + line.first_column;
    for (int c = line.columns; c-- > 0;) {
      T* __restrict target = row + c;
      if (line.stride == 1) {
        for (std::int64_t i = 0; i < line.count; ++i) target[i] += grad[i] * scale;
      } else {
        for (std::int64_t i = 0; i < line.count; ++i) target[i * line.stride] += grad[i] * scale;
      }
    }
  }
}

template <class T>
void average_line_backward(const T* grad, std::int64_t width, std::int64_t channels,
                           const PoolLine& line, T scale, T* gradient) {
  if (channels == 1) return average_line_backward(grad, width, line, scale, gradient);
  for (std::int64_t i = 0; i < line.count; ++i, grad += channels) {
    for_positions(window_of(line, i), width, [&](std::int64_t position) {
      T* __restrict target = gradient + position * channels;
      for (std::int64_t c = 0; c < channels; ++c) target[c] += grad[c] * scale;
    });
  }
}

/// Four lines at a time, so that the sum is read and written less often, and rounded less.
template <class T>
[[gnu::always_inline]] inline void add_lines(const T* from, std::int64_t rows, std::int64_t n,
                                             T* __restrict out) {
  const auto line = [=](std::int64_t r) { return from + r * n; };
  std::int64_t r = rows % 4;
  for (std::int64_t i = 0; i < n; ++i) out[i] = r > 0 ? from[i] : T(0);
  for (std::int64_t k = 1; k < r; ++k) {
    for (std::int64_t i = 0; i < n; ++i) out[i] += line(k)[i];
  }
  for (; r < rows; r += 4) {
    const T *a = line(r), *b = line(r + 1), *c = line(r + 2), *d = line(r + 3);
    for (std::int64_t i = 0; i < n; ++i) out[i] += (a[i] + b[i]) + (c[i] + d[i]);
  }
}

template <class T>
void sum_lines(const T* from, std::int64_t rows, std::int64_t n, T* out) {
  add_lines(from, rows, n, out);
}

template <class T>
void sum_windows(const T* line, std::int64_t channels, const AdaptiveWindow* windows,
                 std::int64_t count, T* out) {
  for (std::int64_t w = 0; w < count; ++w) {
    const T* first = line + windows[w].first * channels;
    if (channels == 1) {
      add_lines(first, windows[w].positions(), 1, out + w);
    } else {
      add_lines(first, windows[w].positions(), channels, out + w * channels);
    }
  }
}

template <class T>
constexpr AvgPoolLoops<T> kLoops = {average_line<T>, average_line_backward<T>, sum_lines<T>,
                                    sum_windows<T>};

}  // namespace

extern const AvgPoolKernels avg_pool_kernels = {kLoops<float>, kLoops<double>};

}  // namespace facula::cpu::FACULA_ISA
