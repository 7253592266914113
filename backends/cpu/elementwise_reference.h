// The oracle of elementwise ops.
#pragma once

#include "runtime/op_registry.h"

namespace facula::cpu {

/// Computes every element in double precision, one at a time, and rounds the result once. Runs the
/// op's own functor on double, whose functions tests compare with the C library's.
void run_elementwise_reference(const KernelArgs& args);

}  // namespace facula::cpu
