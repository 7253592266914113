// Loops that convert elements: convert_kernels().rows[from].loops[to].
#pragma once

#include "backends/cpu/kernels/kernel_names.h"
#include "ops/schema/elementwise_loop.h"

namespace facula::cpu {

struct ConvertRow {
  ElementwiseLoop loops[kDTypeCount];
};
struct ConvertTable {
  ConvertRow rows[kDTypeCount];
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(ConvertTable, convert)
