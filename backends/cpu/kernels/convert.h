// Loops that convert elements: convert_kernels().rows[from].loops[to]; and one that copies rows.
#pragma once

#include <cstddef>

#include "backends/cpu/kernels/kernel_names.h"
#include "ops/schema/elementwise_loop.h"

namespace facula::cpu {

constexpr std::int64_t kRepeatSlack = 64;

struct ConvertRow {
  ElementwiseLoop loops[kDTypeCount];
};
struct ConvertTable {
  ConvertRow rows[kDTypeCount];
  /// Rows of `bytes` each, `to_step` and `from_step` bytes apart.
  void (*copy_rows)(char* to, std::int64_t to_step, const char* from, std::int64_t from_step,
                    std::int64_t bytes, std::int64_t rows);
  /// Rows of `length` times one element of `size` bytes each, one after the other; the elements are
  /// from_step bytes apart. Writes up to kRepeatSlack bytes more.
  void (*repeat_rows)(const char* from, std::int64_t from_step, std::int64_t size,
                      std::int64_t rows, std::int64_t length, std::byte* to);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(ConvertTable, convert)
