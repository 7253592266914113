// Elementwise ops on strided tensors of any layout.
#pragma once

#include "runtime/op_registry.h"

namespace facula::cpu {

/// Implementation of every elementwise op: plans the loops over the dimensions, splits the work
/// into slices that depend on the problem alone, and runs the op's inner loop on each.
void run_elementwise(const KernelArgs& args);

/// Runs `loop` over `out` and `inputs`, all broadcast to the sizes of `out`.
void run_strided_loop(ElementwiseLoop loop, const void* attrs, const Tensor& out,
                      std::span<const Tensor* const> inputs);

}  // namespace facula::cpu
