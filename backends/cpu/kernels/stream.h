// Copies whole cache lines past the caches, with the widest stores of the instruction set.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

struct StreamKernels {
  /// `count` lines of 64 bytes; `to` must be aligned to them.
  void (*lines)(char* to, const char* from, std::int64_t count);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(StreamKernels, stream)
