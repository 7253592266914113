#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/pool_windows.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T, int kLanes>
struct Lanes {
  static_assert(kLanes <= kMostLanes<T>);
  using Position = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Values = typename Vector<T, kLanes>::Values;
  typedef Position Positions __attribute__((vector_size(kLanes * sizeof(T))));
  typedef std::int32_t Indices __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

  Values best{};
  Positions at{};  ///< where, in the window's order of positions

  /// Of a window, whose values load(position, values) gives.
  template <class Load>
  [[gnu::always_inline]] Lanes(const PoolWindow& window, std::int64_t width, Load load) {
    bool first = true;
    for_positions(window, width, [&](std::int64_t position) FACULA_INLINED {
      Values x{};
      load(position, x);
      meet(x, Positions{} + static_cast<Position>(position), first);
      first = false;
    });
  }
  Lanes() = default;
  /// Values at some positions; the first replace whatever there was.
  [[gnu::always_inline]] void meet(const Values& x, const Positions& position, bool first) {
    // Not "x > best": a NaN must win, and stay once it has.
    const Positions wins = first ? Positions{} - 1 : ~(x <= best) & (best == best);
    best = wins ? x : best;
    at = wins ? position : at;
  }
  /// Lane i is window i of a line.
  [[gnu::always_inline]] void spread(std::int32_t stride) {
    [&]<Position... I>(std::integer_sequence<Position, I...>) FACULA_INLINED {
      at += Positions{I...} * stride;
    }
    (std::make_integer_sequence<Position, kLanes>());
  }
  [[gnu::always_inline]] static std::int64_t sum(const Positions& counts) {
    std::int64_t total = 0;
    for (int i = 0; i < kLanes; ++i) total += counts[i];
    return total;
  }
  [[gnu::always_inline]] void store(T* out, std::int32_t* index, std::size_t count) const {
    const Indices indices = __builtin_convertvector(at, Indices);
    __builtin_memcpy(out, &best, count * sizeof(T));
    __builtin_memcpy(index, &indices, count * sizeof(std::int32_t));
  }
  /// Past the caches.
  [[gnu::always_inline]] void stream(float* out, std::int32_t* index) const
      requires(kLanes == kMostLanes<float> && sizeof(T) == sizeof(float)) {
    typename Vec<float>::Raw values, indices;
    __builtin_memcpy(&values, &best, sizeof values);
    __builtin_memcpy(&indices, &at, sizeof indices);
    Vec<float>::stream(out, values);
    Vec<float>::stream(reinterpret_cast<float*>(index), indices);
  }
};

/// Maxima of a window of `some` of the channels, at most kLanes. If Whole, vectors are read and
/// written whole, although that may be too much; else exactly.
template <class T, int kLanes, bool Whole>
[[gnu::always_inline]] inline void max_in_lanes(const T* image, std::int64_t width,
                                                std::int64_t channels, const PoolWindow& window,
                                                T* out, std::int32_t* index,
                                                std::int64_t some = kLanes, bool stream = false) {
  const auto count = static_cast<std::size_t>(Whole ? kLanes : some);
  const Lanes<T, kLanes> lanes(window, width, [&](std::int64_t position, auto& x) FACULA_INLINED {
    __builtin_memcpy(&x, image + position * channels, count * sizeof(T));
  });
  if constexpr (Whole && std::is_same_v<T, float> && kLanes == kMostLanes<T>) {
    if (stream) return lanes.stream(out, index);
  }
  lanes.store(out, index, count);
}

/// A window of one channel.
template <class T>
void max_of_window(const T* plane, std::int64_t width, const PoolWindow& window, T* out,
                   std::int32_t* index) {
  std::int64_t at = window.first_row * width + window.first_column;
  T best = plane[at];
  for_positions(window, width, [&](std::int64_t position) FACULA_INLINED {
    const bool wins = !(plane[position] <= best) & (best == best);
    best = wins ? plane[position] : best;
    at = wins ? position : at;
  });
  *out = best;
  *index = static_cast<std::int32_t>(at);
}

/// Windows of one channel.
template <class T>
void max_line_of_plane(const T* plane, std::int64_t width, const PoolLine& line, T* out,
                       std::int32_t* index) {
  const bool grouped =
      for_groups<T>(line, [&]<int kLanes, int kStride>(std::int64_t i) FACULA_INLINED {
        Lanes<T, kLanes> lanes(window_of(line, i), width,
                               [&](std::int64_t position, auto& x) FACULA_INLINED {
                                 load_strided<kStride>(plane + position, line.stride, x);
                               });
        lanes.spread(line.stride);
        lanes.store(out + i, index + i, kLanes);
      });
  for (std::int64_t i = 0; !grouped && i < line.count; ++i) {
    max_of_window(plane, width, window_of(line, i), out + i, index + i);
  }
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
      max_in_lanes<T, kLanes, false>(image, width, channels, window, out, index, channels);
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

/// Asks for what windows of the next line read first: pieces of several lines at once are more than
/// processors foresee.
template <class T>
[[gnu::always_inline]] inline void prefetch_below(const T* image, std::int64_t width,
                                                  std::int64_t channels, const PoolLine& line,
                                                  std::int64_t column) {
  const std::int64_t below = line.first_row + std::int64_t{line.rows} * line.row_step;
  const std::int64_t columns = line.stride < width - column ? line.stride : width - column;
  for (std::int64_t r = 0; r < line.rows_below; ++r) {
    const T* next = image + ((below + r) * width + column) * channels;
    for (std::int64_t k = 0; k < columns * channels; k += 64 / sizeof(T)) {
      __builtin_prefetch(next + k, 0, 2);
    }
  }
}

/// Windows of many channels, as many at a time as fit.
template <class T, int kSize>
void max_line_of_many(const T* image, std::int64_t width, std::int64_t channels,
                      const PoolLine& line, T* out, std::int32_t* index) {
  constexpr int kLanes = kMostLanes<T>;
  PoolWindow window{line.first_row,    kSize ? kSize : line.rows,    line.row_step,
                    line.first_column, kSize ? kSize : line.columns, line.column_step};
  for (std::int64_t i = 0; i < line.count; ++i, out += channels, index += channels) {
    prefetch_below(image, width, channels, line, window.first_column);
    std::int64_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) {
      max_in_lanes<T, kLanes, true>(image + c, width, channels, window, out + c, index + c, kLanes,
                                    line.stream);
    }
    if (c < channels) {
      max_in_lanes<T, kLanes, false>(image + c, width, channels, window, out + c, index + c,
                                     channels - c);
    }
    window.first_column += line.stride;
  }
}

template <class T>
void max_line(const T* image, std::int64_t width, std::int64_t channels, const PoolLine& line,
              T* out, std::int32_t* index) {
  if (channels == 1) return max_line_of_plane(image, width, line, out, index);
  constexpr int kMost = kMostLanes<T>, kHalf = kMost > kFewestLanes<T> ? kMost / 2 : kMost;
  if (channels <= kHalf) {
    return max_line_in_lanes<T, kHalf>(image, width, channels, line, out, index);
  }
  if (channels <= kMost) {
    return max_line_in_lanes<T, kMost>(image, width, channels, line, out, index);
  }
  const bool three = line.rows == 3 && line.columns == 3;
  three ? max_line_of_many<T, 3>(image, width, channels, line, out, index)
        : max_line_of_many<T, 0>(image, width, channels, line, out, index);
}

/// Calls body(first channel, lanes that the vector before has already) for vectors of channels, of
/// which there are kLanes or more.
template <int kLanes, class Body>
[[gnu::always_inline]] inline void for_channels(std::int64_t channels, Body body) {
  std::int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) body(c, 0);
  if (c < channels) body(channels - kLanes, static_cast<int>(c + kLanes - channels));
}

/// Maxima of `some` elements from number i on: of all kMostLanes if Whole.
template <class T, bool Whole>
[[gnu::always_inline]] inline void max_of_lanes(const T* values, const std::int32_t* positions,
                                                std::int64_t lines, std::int64_t first,
                                                std::int64_t count, std::int64_t n, std::int64_t i,
                                                std::int64_t some, T* out, std::int32_t* index) {
  using L = Lanes<T, kMostLanes<T>>;
  const auto lanes = static_cast<std::size_t>(Whole ? kMostLanes<T> : some);
  L best;
  for (std::int64_t k = 0, line = first; k < count; ++k, line = line + 1 == lines ? 0 : line + 1) {
    typename L::Values x{};
    typename L::Indices at{};
    __builtin_memcpy(&x, values + line * n + i, lanes * sizeof(T));
    __builtin_memcpy(&at, positions + line * n + i, lanes * sizeof(std::int32_t));
    best.meet(x, __builtin_convertvector(at, typename L::Positions), k == 0);
  }
  best.store(out + i, index + i, lanes);
}

template <class T>
void max_of_lines(const T* values, const std::int32_t* positions, std::int64_t lines,
                  std::int64_t first, std::int64_t count, std::int64_t n, T* out,
                  std::int32_t* index) {
  if (n < kMostLanes<T>) {
    return max_of_lanes<T, false>(values, positions, lines, first, count, n, 0, n, out, index);
  }
  for_channels<kMostLanes<T>>(n, [&](std::int64_t i, int) FACULA_INLINED {
    max_of_lanes<T, true>(values, positions, lines, first, count, n, i, n, out, index);
  });
}

/// Gradients of kLanes channels of a window and where their maxima lie.
template <class T, int kLanes = kMostLanes<T>>
struct WindowGradients {
  using L = Lanes<T, kLanes>;
  typename L::Values grad;
  typename L::Positions at;

  [[gnu::always_inline]] WindowGradients(const T* g, const std::int32_t* index) {
    typename L::Indices indices;
    __builtin_memcpy(&grad, g, sizeof grad);
    __builtin_memcpy(&indices, index, sizeof indices);
    at = __builtin_convertvector(indices, typename L::Positions);
  }
  /// What a position of the image gets. Adds to `hits` for every lane but the first `known`.
  [[gnu::always_inline]] typename L::Values of(std::int64_t position, int known,
                                               typename L::Positions& hits) const {
    using Position = typename L::Position;
    const typename L::Positions here = at == static_cast<Position>(position);
    [&]<Position... I>(std::integer_sequence<Position, I...>) FACULA_INLINED {
      hits -= here & (typename L::Positions{I...} >= static_cast<Position>(known));
    }
    (std::make_integer_sequence<Position, kLanes>());
    return here ? grad : typename L::Values{};
  }
};

/// Stores gradients of kMostLanes channels, `at` elements behind `out`, where `rectified` lets them
/// pass.
template <class T, class Values>
[[gnu::always_inline]] inline void store_gradient(Values sum, const T* rectified, T* out,
                                                  std::int64_t at, bool stream) {
  if (rectified) {
    Values passed;
    __builtin_memcpy(&passed, rectified + at, sizeof passed);
    sum = passed <= 0 ? Values{} : sum;
  }
  typename Vec<T>::Raw raw;
  static_assert(sizeof raw == sizeof sum);
  __builtin_memcpy(&raw, &sum, sizeof raw);
  stream ? Vec<T>::stream(out + at, raw) : Vec<T>::store(out + at, raw);
}

/// A line of gradients under windows that do not overlap: each of these is read once per line.
template <class T>
std::int64_t max_line_backward_of_one(const T* grad, const std::int32_t* index,
                                      std::int64_t channels, const PoolLineWindows& windows,
                                      std::int64_t first, const T* rectified, T* out) {
  using L = Lanes<T, kMostLanes<T>>;
  typename L::Positions hits{};
  const auto clear = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin * channels; k < end * channels; ++k) out[k] = 0;
  };
  std::int64_t done = 0;
  for (std::int64_t i = 0; i < windows.out_width; ++i, grad += channels, index += channels) {
    const std::int64_t start = i * windows.stride - windows.padding;
    const std::int64_t reach = start + windows.kernel;
    const std::int64_t begin = start < 0 ? 0 : start;
    const std::int64_t end = reach < windows.width ? reach : windows.width;
    clear(done, begin);
    for_channels<kMostLanes<T>>(channels, [&](std::int64_t c, int known) FACULA_INLINED {
      const WindowGradients<T> window(grad + c, index + c);
      for (std::int64_t w = begin; w < end; ++w) {
        store_gradient(typename L::Values{} + window.of(first + w, known, hits), rectified, out,
                       w * channels + c, windows.stream);
      }
    });
    done = end;
  }
  clear(done, windows.width);
  return L::sum(hits);
}

template <class T>
std::int64_t max_line_backward_of_many(const T* grad, const std::int32_t* index,
                                       std::int64_t channels, const PoolLineWindows& windows,
                                       std::int64_t first, const T* rectified, T* out) {
  using L = Lanes<T, kMostLanes<T>>;
  typename L::Positions hits{};
  // The pixel at w, under R rows and C columns of windows from column `begin` on.
  const auto add_up = [&](std::int64_t w, std::int64_t begin, auto rows,
                          auto columns) FACULA_INLINED {
    const PoolWindow over{0,
                          static_cast<std::int32_t>(rows),
                          1,
                          static_cast<std::int32_t>(begin),
                          static_cast<std::int32_t>(columns),
                          1};
    for_channels<kMostLanes<T>>(channels, [&](std::int64_t c, int known) FACULA_INLINED {
      typename L::Values sum{};
      for_positions(over, windows.out_width, [&](std::int64_t window) FACULA_INLINED {
        const std::int64_t place = window * channels + c;
        sum += WindowGradients<T>(grad + place, index + place).of(first + w, known, hits);
      });
      store_gradient(sum, rectified, out, w * channels + c, windows.stream);
    });
  };
  // Numbers of windows that are known make straight code.
  using One = std::integral_constant<int, 1>;
  using Two = std::integral_constant<int, 2>;
  std::int64_t begin = 0, end = 0;  // of the windows over a position
  for (std::int64_t w = 0; w < windows.width; ++w) {
    while (begin * windows.stride - windows.padding + windows.kernel <= w) ++begin;
    while (end < windows.out_width && end * windows.stride - windows.padding <= w) ++end;
    const std::int64_t columns = end - begin;
    if (windows.rows == 1 && columns == 1) {
      add_up(w, begin, One{}, One{});
    } else if (windows.rows == 1 && columns == 2) {
      add_up(w, begin, One{}, Two{});
    } else if (windows.rows == 2 && columns == 1) {
      add_up(w, begin, Two{}, One{});
    } else if (windows.rows == 2 && columns == 2) {
      add_up(w, begin, Two{}, Two{});
    } else {
      add_up(w, begin, windows.rows, columns);
    }
  }
  return L::sum(hits);
}

template <class T>
std::int64_t max_line_backward(const T* grad, const std::int32_t* index, std::int64_t channels,
                               const PoolLineWindows& windows, std::int64_t first,
                               const T* rectified, T* out) {
  const bool one = windows.rows == 1 && windows.stride >= windows.kernel;
  return (one ? max_line_backward_of_one<T> : max_line_backward_of_many<T>)(grad, index, channels,
                                                                            windows, first,
                                                                            rectified, out);
}

template <class T>
constexpr MaxPoolLoops<T> kLoops = {max_line<T>, max_of_lines<T>, max_line_backward<T>};

}  // namespace

extern const MaxPoolKernels max_pool_kernels = {kLoops<float>, kLoops<double>};

}  // namespace facula::cpu::FACULA_ISA
