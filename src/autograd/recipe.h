// Saved tensors that are computed again instead of being kept.
#pragma once

#include "autograd/node.h"

namespace facula::autograd {

/// A tensor with the elements of `input`, which the call `consumer` saves, that takes no memory
/// until backward reads it; undefined where `input` is better kept.
Tensor recipe(const Call& consumer, const Tensor& input);

}  // namespace facula::autograd
