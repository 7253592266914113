// One call of an op: what rules, kernels and hooks look at.
#pragma once

#include <cstdint>
#include <span>

#include <facula/tensor.h>

#include "base/small_vector.h"

namespace facula {

struct Op;
using Outputs = SmallVector<Tensor, 4>;

/// Inputs and attributes of a call. Tensor arguments stand in signature order; an absent optional
/// argument is an undefined tensor; a list argument occupies as many places as it has entries, and
/// `segments` then gives the number of places of every tensor argument.
struct Call {
  const Op& op;
  const Tensor* const* inputs;
  std::uint32_t count;
  const void* attributes;
  const std::uint16_t* segments = nullptr;

  const Tensor& in(std::size_t i) const { return *inputs[i]; }
  bool has(std::size_t i) const { return i < count && inputs[i]->defined(); }
  template <class A>
  const A& attrs() const {
    return *static_cast<const A*>(attributes);
  }
  /// The entries of tensor argument `argument` of an op with list arguments.
  std::span<const Tensor* const> list(std::size_t argument) const {
    std::size_t first = 0;
    for (std::size_t i = 0; i < argument; ++i) first += segments[i];
    return {inputs + first, segments[argument]};
  }
};

}  // namespace facula
