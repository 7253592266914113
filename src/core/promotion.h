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

/// Of the gradients of a tensor: float32 for 16 bits, in which sums would lose too much, else its
/// own.
inline DType gradient_dtype(DType dtype) {
  return dtype == kFloat16 || dtype == kBFloat16 ? kFloat32 : dtype;
}

}  // namespace facula
