// Checks of ops made of other ops, whose messages would name those instead.
#pragma once

#include <concepts>
#include <span>

#include <facula/tensor.h>

#include "base/check.h"

namespace facula {

/// The device of the tensors that are defined, where numbers (0-d) on the CPU go along with any.
/// Throws DeviceError if there are two.
Device common_device(const char* op, std::span<const Tensor* const> tensors);
inline Device common_device(const char* op, std::initializer_list<const Tensor*> tensors) {
  return common_device(op, std::span(tensors.begin(), tensors.size()));
}

/// Checks that the tensors are defined and on one device.
void check_defined(const char* op, const std::same_as<Tensor> auto&... tensors) {
  check<ValueError>((tensors.defined() && ...), "{}: an input is an undefined tensor", op);
  if constexpr (sizeof...(tensors) > 1) common_device(op, {&tensors...});
}

/// Checks that the tensors are defined, on one device and of dtypes that can be computed with.
void check_operands(std::initializer_list<Tensor> tensors, const char* op);
/// Checks a tensor of which all elements are reduced: the same, and that there is one.
void check_reduces_all(const Tensor& self, const char* op);

/// Checks a tensor of which these dimensions (none given: all) are reduced: the same.
void check_reduces(const Tensor& self, IntList dims, const char* op);

}  // namespace facula
