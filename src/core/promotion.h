// Which dtype a result has.
#pragma once

#include <span>

#include <facula/tensor.h>

namespace facula {

/// Bool < integers < floating point. Results do not descend into a lower category by themselves.
int category(DType dtype);

/// The dtype of a result computed from `inputs`: tensors with dimensions decide, 0-d tensors and
/// numbers only matter if they belong to a higher category.
DType promoted_dtype(std::span<const Tensor* const> inputs);

}  // namespace facula
