// What argmax and argmin have in common.
#pragma once

#include "ops/schema/op_def.h"

namespace facula {

void infer_arg_reduction(Infer& infer, std::optional<std::int64_t> dim, bool keepdim);
void arg_reduction_samples(Samples& samples);
void arg_reduction_errors(ErrorSamples& errors);

}  // namespace facula
