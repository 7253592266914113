// What the losses of pairs of elements have in common.
#pragma once

#include <string_view>

#include <facula/tensor.h>

#include "ops/op_ids.h"
#include "ops/schema/op_def.h"

namespace facula {

/// Checks that input and target have one size, which is not empty for the mean, and that the
/// reduction is known.
void check_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
                const char* op);
/// Refuses the mean over no elements, which is NaN and would spread through the model unseen.
void check_not_empty(const Tensor& input, const Tensor& target, std::string_view reduction,
                     const char* op);

/// A loss that sums or averages one term for each pair of elements.
struct PairLoss {
  std::string_view name;
  OpId term;  ///< an elementwise op of self, target and, if it has any, one double attribute
  Tensor (*terms)(const Tensor& self, const Tensor& target, double parameter);
  /// Sets the gradients from self and target for `grad`, that of each term.
  void (*gradient)(GradientContext& g, const Tensor& grad, double parameter);
};
/// Throws ValueError if there is none of that name.
const PairLoss& pair_loss_named(std::string_view name);

/// For ops of self - target: `grad` is that of self, its negative that of target.
void set_difference_gradient(GradientContext& g, const Tensor& grad);

/// The checked loss of self and target in one pass over memory.
Tensor reduce_pairs(const Tensor& self, const Tensor& target, std::string_view loss,
                    std::string_view reduction, const char* op, double parameter = 0);
/// mean, sum or none.
Tensor reduce_loss(const Tensor& losses, std::string_view reduction);

}  // namespace facula
