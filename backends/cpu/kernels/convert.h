// Loops that convert elements: convert_kernels().rows[from].loops[to]; and one that copies rows.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"
#include "ops/schema/elementwise_loop.h"

namespace facula::cpu {

struct ConvertRow {
  ElementwiseLoop loops[kDTypeCount];
};
struct ConvertTable {
  ConvertRow rows[kDTypeCount];
  /// Rows of `bytes` each, `to_step` and `from_step` bytes apart.
  void (*copy_rows)(char* to, std::int64_t to_step, const char* from, std::int64_t from_step,
                    std::int64_t bytes, std::int64_t rows);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(ConvertTable, convert)
