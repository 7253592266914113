// What softmax, log_softmax and their gradients have in common.
#pragma once

#include "ops/schema/op_def.h"

namespace facula {

/// Checks input and dimension; one output of the input's shape, dtype and, if that has no gaps,
/// layout.
void infer_softmax(Infer& infer, std::int64_t dim);
/// The same for a gradient beside the output of the forward op, which the result is like.
void infer_softmax_backward(Infer& infer, std::int64_t dim);

/// Of both gradients.
void softmax_backward_errors(ErrorSamples& e);

}  // namespace facula
