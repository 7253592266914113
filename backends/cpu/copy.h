// Moving elements: what kernels of shape ops are made of.
#pragma once

#include <facula/tensor.h>

namespace facula::cpu {

/// Writes source, broadcast to the size of destination and converted to its dtype, into
/// destination. They must not overlap.
void copy_elements(const Tensor& source, const Tensor& destination);

/// Writes zeros into a dense tensor.
void zero_elements(const Tensor& dense);

}  // namespace facula::cpu
