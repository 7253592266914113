// What random ops have in common: the stream position they take as an input.
#pragma once

#include <facula/generator.h>
#include <facula/tensor.h>

namespace facula {

/// Reserves the counters for `numel` values of `dtype` and returns {seed, offset} as an int64 [2]
/// tensor. Null: the default generator.
Tensor reserve_random(Generator* generator, std::int64_t numel, DType dtype);

/// Checks such a tensor.
void check_random_state(const Tensor& state, const char* op);

}  // namespace facula
