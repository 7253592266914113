#include "backends/cpu/kernels/pool.h"

#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/simd.h"

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

/// Window i of a line.
[[gnu::always_inline]] inline PoolWindow window_of(const PoolLine& line, std::int64_t i) {
  return {line.first_row, line.rows,
          line.row_step,  static_cast<std::int32_t>(line.first_column + i * line.stride),
          line.columns,   line.column_step};
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

// Of vectors wider than those of the instruction set, GCC would compare the elements one by one.
template <class T>
constexpr int kMostLanes = Vec<T>::kWidth;
template <class T>
constexpr int kFewestLanes = 16 / sizeof(T);

template <class T, int kLanes>
struct Lanes {
  static_assert(kLanes <= kMostLanes<T>);
  using Position = typename PositionType<T>::type;
  typedef T Values __attribute__((vector_size(kLanes * sizeof(T))));
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
      // Not "x > best": a NaN must win, and stay once it has.
      const Positions wins = first ? Positions{} - 1 : ~(x <= best) & (best == best);
      best = wins ? x : best;
      at = wins ? Positions{} + static_cast<Position>(position) : at;
      first = false;
    });
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

/// Reads x[0], x[stride], ..., and nothing behind the last of them.
template <int kStride, class T, class Values>
[[gnu::always_inline]] inline void load_strided(const T* x, std::int64_t stride, Values& values) {
  constexpr int kLanes = sizeof(Values) / sizeof(T);
  if constexpr (kStride == 1) {
    __builtin_memcpy(&values, x, sizeof values);
  } else if constexpr (kStride == 2) {
    Values first, last;
    __builtin_memcpy(&first, x, sizeof first);
    __builtin_memcpy(&last, x + kLanes - 1, sizeof last);
    [&]<int... I>(std::integer_sequence<int, I...>) FACULA_INLINED {
      values = __builtin_shufflevector(first, last, (2 * I + (2 * I >= kLanes))...);
    }
    (std::make_integer_sequence<int, kLanes>());
  } else {
    for (int i = 0; i < kLanes; ++i) values[i] = x[i * stride];
  }
}

/// Calls body<kLanes, kStride>(i) for windows i, i + 1, ... of a line, kLanes at a time; the last
/// ones overlap those before.
template <int kLanes, int kStride, class Body>
[[gnu::always_inline]] inline void for_groups_of(const PoolLine& line, Body body) {
  for (std::int64_t i = 0; i < line.count; i += kLanes) {
    if (i + kLanes > line.count) i = line.count - kLanes;
    body.template operator()<kLanes, kStride>(i);
  }
}

/// As many as fit; false if the line is too short for groups.
template <class T, int kLanes = kMostLanes<T>, class Body>
[[gnu::always_inline]] inline bool for_groups(const PoolLine& line, Body body) {
  if (line.count < kLanes) {
    if constexpr (kLanes > kFewestLanes<T>) return for_groups<T, kLanes / 2>(line, body);
    return false;
  }
  switch (line.stride) {
    case 1: for_groups_of<kLanes, 1>(line, body); break;
    case 2: for_groups_of<kLanes, 2>(line, body); break;
    default: for_groups_of<kLanes, 0>(line, body);
  }
  return true;
}

/// Windows of one channel.
template <class T>
bool max_line_of_plane(const T* plane, std::int64_t width, const PoolLine& line, T* out,
                       std::int32_t* index) {
  return for_groups<T>(line, [&]<int kLanes, int kStride>(std::int64_t i) FACULA_INLINED {
    Lanes<T, kLanes> lanes(window_of(line, i), width,
                           [&](std::int64_t position, auto& x) FACULA_INLINED {
                             load_strided<kStride>(plane + position, line.stride, x);
                           });
    lanes.spread(line.stride);
    lanes.store(out + i, index + i, kLanes);
  });
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
  if (channels == 1 && max_line_of_plane(image, width, line, out, index)) return;
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
bool average_few(const T* plane, std::int64_t width, const PoolLine& line, T scale, T* out) {
  return for_groups<T>(line, [&]<int kLanes, int kStride>(std::int64_t i) FACULA_INLINED {
    typename Lanes<T, kLanes>::Values sums{};
    for_positions(window_of(line, i), width, [&](std::int64_t position) FACULA_INLINED {
      typename Lanes<T, kLanes>::Values x;
      load_strided<kStride>(plane + position, line.stride, x);
      sums += x;
    });
    sums *= scale;
    __builtin_memcpy(out + i, &sums, sizeof sums);
  });
}

template <class T>
void average_line(const T* image, std::int64_t width, std::int64_t channels, const PoolLine& line,
                  T scale, T* out) {
  constexpr std::int64_t kFew = 64;  // so few that the error stays that of a few roundings
  const bool few = std::int64_t{line.rows} * line.columns <= kFew;
  if (few && channels == 1 && average_few(image, width, line, scale, out)) return;
  for (std::int64_t i = 0; i < line.count; ++i, out += channels) {
    const PoolWindow window = window_of(line, i);
    if (few) {
      average_few(image, width, channels, window, scale, out);
    } else {
      average_many(image, width, channels, window, scale, out);
    }
  }
}

template <class T>
void average_line_backward(const T* grad, std::int64_t width, std::int64_t channels,
                           const PoolLine& line, T scale, T* gradient) {
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
constexpr PoolLoops<T> loops() {
  return {max_line<T>,  max_line_backward<T>, average_line<T>, average_line_backward<T>,
          sum_lines<T>, sum_windows<T>};
}

}  // namespace

extern const PoolKernels pool_kernels = {loops<float>(), loops<double>()};

}  // namespace facula::cpu::FACULA_ISA
