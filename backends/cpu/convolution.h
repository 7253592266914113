// The three convolution ops as one problem.
#pragma once

#include <string_view>

#include "core/tensor_impl.h"
#include "ops/schema/convolution.h"
#include "runtime/op_registry.h"

namespace facula::cpu {

enum class ConvKind : std::uint8_t { forward, backward_input, backward_weight };

ConvKind conv_kind(const KernelArgs& args);
/// The shape of the convolution that a call of conv2d or one of its gradients is about.
ConvShape conv_shape_of(const KernelArgs& args);
/// The call's result has no elements, or there is nothing to add up: it becomes bias or 0.
bool run_if_empty(const KernelArgs& args, const ConvShape& shape);

/// parts[0] = sum of all parts of n elements each, joined pairwise in a fixed tree.
void sum_parts(float* parts, std::int64_t count, std::int64_t n);
void sum_parts(double* parts, std::int64_t count, std::int64_t n);

}  // namespace facula::cpu
