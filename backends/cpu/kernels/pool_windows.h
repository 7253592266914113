// What windows of both kinds of pooling share. Included by kernel translation units only.
#pragma once

#include <utility>

#include "backends/cpu/kernels/pool.h"
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

// Of vectors wider than those of the instruction set, GCC would compare the elements one by one.
template <class T>
constexpr int kMostLanes = Vec<T>::kWidth;
template <class T>
constexpr int kFewestLanes = 16 / sizeof(T);

template <class T, int kLanes>
struct Vector {
  typedef T Values __attribute__((vector_size(kLanes * sizeof(T))));
};

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

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
