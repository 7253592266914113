// What the losses made of elementwise ops have in common.
#pragma once

#include <string_view>

#include <facula/tensor.h>

namespace facula {

/// Checks that input and target have one size, which is not empty for the mean, and that the
/// reduction is known.
void check_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
                const char* op);
/// Refuses the mean over no elements, which is NaN and would spread through the model unseen.
void check_not_empty(const Tensor& input, const Tensor& target, std::string_view reduction,
                     const char* op);
/// mean, sum or none.
Tensor reduce_loss(const Tensor& losses, std::string_view reduction);

}  // namespace facula
