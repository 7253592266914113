// FACULA_VERBOSE=1: one line per executed op.
#pragma once

#include <vector>

#include "runtime/op_registry.h"

namespace facula::runtime {

/// Runs the implementation and logs op, problem, implementation, time, GFLOP/s (of direct
/// computation) with their share of the measured peak, or GB/s, and why those before it in `list`
/// refused.
void run_verbosely(const Implementation& implementation, const std::vector<Implementation>& list,
                   const KernelArgs& args);

}  // namespace facula::runtime
