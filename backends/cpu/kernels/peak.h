// As much arithmetic as the instruction set can do.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

struct PeakKernels {
  /// `rounds` rounds of independent multiply-adds on float32; returns the number of operations.
  double (*multiply_add)(std::int64_t rounds);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(PeakKernels, peak)
