// What softmax and log_softmax have in common.
#pragma once

#include "ops/schema/op_def.h"

namespace facula {

/// Checks input and dimension; one contiguous output of the input's shape and dtype.
void infer_softmax(Infer& infer, std::int64_t dim);

}  // namespace facula
