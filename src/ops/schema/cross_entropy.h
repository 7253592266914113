// What cross_entropy_loss and its backward have in common.
#pragma once

#include <string_view>

#include "ops/schema/op_def.h"

namespace facula {

/// Checks shapes, dtypes and options; labels are checked where they are used.
void check_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                         std::string_view reduction, double label_smoothing);

}  // namespace facula
