// FACULA_VERBOSE=1: one line per executed op.
#pragma once

#include "runtime/op_registry.h"

namespace facula::runtime {

/// Runs the implementation and logs op, problem, implementation, time, and GFLOP/s (of direct
/// computation) with their share of the measured peak, or GB/s.
void run_verbosely(const Implementation& implementation, const KernelArgs& args);

}  // namespace facula::runtime
