// Checks shared by ops that update lists of parameters in place.
#pragma once

#include <initializer_list>

#include "ops/schema/op_def.h"

namespace facula {

/// A tensor-list argument, named as users know it. An optional list may be empty.
struct ListArgument {
  int argument;
  const char* name;
  bool required = true;
};

/// Throws unless every list has one tensor for each parameter (argument 0), of the same size,
/// strides and dtype (float32 or float64), stored without gaps.
void check_parameter_lists(const Infer& infer, std::initializer_list<ListArgument> lists);

/// Throws unless input `i` is a 0-d float64 tensor: a number that changes from step to step.
void check_step_scalar(const Infer& infer, std::size_t i, const char* name);

}  // namespace facula
