// Reductions over any dimensions of strided tensors.
#pragma once

#include "backends/cpu/kernels/reduction.h"
#include "runtime/op_registry.h"

namespace facula::cpu {

/// Inner loops of the active instruction set by op and dtype.
extern const ReductionLoops* reduction_loops[static_cast<int>(OpId::count)];

/// Implementation of every reduction.
void run_reduction(const KernelArgs& args);
/// The same in double precision: the oracle.
void run_reduction_reference(const KernelArgs& args);

}  // namespace facula::cpu
