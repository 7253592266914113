// Checks of ops made of other ops, whose messages would name those instead.
#pragma once

#include <concepts>

#include <facula/tensor.h>

#include "base/check.h"

namespace facula {

/// Checks that the tensors are defined.
void check_defined(const char* op, const std::same_as<Tensor> auto&... tensors) {
  check<ValueError>((tensors.defined() && ...), "{}: an input is an undefined tensor", op);
}

/// Checks that the tensors are defined and of dtypes that can be computed with.
void check_operands(std::initializer_list<Tensor> tensors, const char* op);
/// Checks a tensor of which all elements are reduced: the same, and that there is one.
void check_reduces_all(const Tensor& self, const char* op);

/// Checks a tensor of which these dimensions (none given: all) are reduced: the same.
void check_reduces(const Tensor& self, IntList dims, const char* op);

}  // namespace facula
