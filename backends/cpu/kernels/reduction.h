// Inner loops of a reduction for one dtype.
#pragma once

#include <cstddef>

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Bytes of totals of the columns that ReductionLoops::columns takes at once, at most: they stay in
/// the nearest cache.
inline constexpr std::size_t kMostColumnBytes = 16384;

/// Rows of so many columns at most, without gaps, are read in the order of memory.
inline constexpr int kNarrowColumns = 64;

/// Up to so many rows of fewer columns than that go column by column, as rows with a stride, which
/// are so short that lanes do not pay.
inline constexpr std::int64_t kFewRows = 64, kFewColumns = 16;

struct ReductionLoops {
  std::size_t accumulator_bytes = 0;
  /// Reduces each of `rows` rows, `row_step` bytes apart, of n elements `stride` bytes apart to one
  /// total. With `ask`, long rows of consecutive elements are asked for ahead.
  void (*rows)(const void* input, std::int64_t rows, std::int64_t row_step, std::int64_t n,
               std::int64_t stride, bool ask, void* totals) = nullptr;
  /// Reduces `rows` rows of n consecutive elements to n totals, of kMostColumnBytes at most. With
  /// `ask`, the next rows are asked for.
  void (*columns)(const void* input, std::int64_t rows, std::int64_t row_stride, std::int64_t n,
                  bool ask, void* totals) = nullptr;
  /// a[i] = a[i] combined with b[i].
  void (*combine)(void* a, const void* b, std::int64_t n) = nullptr;
  /// Results from totals of `count` elements each.
  void (*finish)(const void* totals, std::int64_t n, double count, void* out) = nullptr;
  void (*identity)(void* totals, std::int64_t n) = nullptr;
};

}  // namespace facula::cpu
