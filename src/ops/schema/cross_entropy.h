// What cross_entropy_loss and its backward have in common.
#pragma once

#include <string_view>

#include "ops/schema/op_def.h"

namespace facula {

/// Checks shapes, dtypes and options; labels are checked where they are used.
void check_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                         std::string_view reduction, double label_smoothing);

/// Both ops are sums over terms[i, c] * share[i, c] * weight[c], where a sample's share is
/// 1 - label_smoothing for its class plus label_smoothing / C for every class, 0 if it is ignored;
/// with "mean" divided by the sum of the weights of all classes that occur. Returns the derivative
/// with respect to weight [C] for terms [N, C].
Tensor cross_entropy_weight_gradient(const Tensor& terms, const Tensor& target,
                                     const Tensor& weight, std::string_view reduction,
                                     std::int64_t ignore_index, double label_smoothing);

}  // namespace facula
