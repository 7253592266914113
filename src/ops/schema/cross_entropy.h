// What losses over classes have in common: cross_entropy, its ops, and nll_loss.
#pragma once

#include <string_view>

#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula {

/// Checks an input [C], [N, C] or [N, C, ...], the factors of the classes and the reduction.
void check_class_scores(const Tensor& input, const Tensor& target, const Tensor& weight,
                        std::string_view reduction, const char* op);
/// Checks that target has the form of class indices for a checked input.
void check_class_indices(const Tensor& input, const Tensor& target, const char* op);
void check_label_smoothing(double label_smoothing);
/// All of that for logits [N, C]; labels are checked where they are used.
void check_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                         std::string_view reduction, double label_smoothing);
/// Throws IndexError for a label that is no class. `i`: its position.
inline void check_label(std::int64_t label, std::int64_t i, std::int64_t classes, const char* op) {
  check<IndexError>(label >= 0 && label < classes,
                    "{}: label {} at position {} is outside [0, {}); correct the data, or set "
                    "ignore_index to skip such labels",
                    op, label, i, classes);
}

/// A checked input as rows [M, C].
Tensor rows_of_classes(const Tensor& input);
/// loss(rows [M, C], labels [M]) for a checked input and its class indices.
template <class Loss>
Tensor loss_of_rows(const Tensor& input, const Tensor& target, std::string_view reduction,
                    const Loss& loss) {
  if (input.dim() == 2) return loss(input, target);
  const Tensor losses = loss(rows_of_classes(input), reshape(target, -1));
  return reduction == "none" ? reshape(losses, target.sizes()) : losses;
}

/// cross_entropy_loss and its backward are sums over terms[i, c] * share[i, c] * weight[c], where a
/// sample's share is 1 - label_smoothing for its class plus label_smoothing / C for every class, 0
/// if it is ignored; with "mean" divided by the sum of the weights of all classes that occur.
/// Returns the derivative with respect to weight [C] for terms [N, C].
Tensor cross_entropy_weight_gradient(const Tensor& terms, const Tensor& target,
                                     const Tensor& weight, std::string_view reduction,
                                     std::int64_t ignore_index, double label_smoothing);

}  // namespace facula
