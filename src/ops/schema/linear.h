// Shapes of linear layers.
#pragma once

#include "ops/schema/op_def.h"

namespace facula {

/// Checks and adds the result of a linear layer of inputs 0 (input), 1 (weight) and 2 (bias, maybe
/// absent).
void infer_linear(Infer& c);

}  // namespace facula
