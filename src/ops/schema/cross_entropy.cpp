#include "ops/schema/cross_entropy.h"

#include <facula/ops.h>

namespace facula {

void check_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                         std::string_view reduction, double label_smoothing) {
  check<ValueError>(logits.defined() && target.defined(),
                    "cross_entropy: an input is an undefined tensor");
  check<ShapeError>(logits.dim() == 2, "cross_entropy: logits of size {}, expected [N, C]",
                    logits.sizes());
  check<DTypeError>(kFloatingTypes.contains(logits.dtype()),
                    "cross_entropy: logits of dtype {} are not supported; use float32 or float64",
                    name_of(logits.dtype()));
  check<DTypeError>(target.dtype() == kInt64,
                    "cross_entropy: target of dtype {}, expected int64 class indices",
                    name_of(target.dtype()));
  check<ShapeError>(target.dim() == 1 && target.sizes()[0] == logits.sizes()[0],
                    "cross_entropy: target of size {} for logits of size {}, expected [N]",
                    target.sizes(), logits.sizes());
  if (weight.defined()) {
    check<ShapeError>(weight.dim() == 1 && weight.sizes()[0] == logits.sizes()[1],
                      "cross_entropy: weight of size {} for {} classes, expected [C]",
                      weight.sizes(), logits.sizes()[1]);
    check<DTypeError>(weight.dtype() == logits.dtype(),
                      "cross_entropy: weight of dtype {} for logits of dtype {}",
                      name_of(weight.dtype()), name_of(logits.dtype()));
  }
  check<ValueError>(reduction == "mean" || reduction == "sum" || reduction == "none",
                    "cross_entropy: unknown reduction \"{}\"; use mean, sum or none", reduction);
  check<ValueError>(label_smoothing >= 0 && label_smoothing <= 1,
                    "cross_entropy: label_smoothing {} is outside [0, 1]", label_smoothing);
}

Tensor cross_entropy_weight_gradient(const Tensor& terms, const Tensor& target,
                                     const Tensor& weight, std::string_view reduction,
                                     std::int64_t ignore_index, double label_smoothing) {
  const std::int64_t classes = terms.size(1);
  const Tensor labels = unsqueeze(target, 1);
  const Tensor counted = labels != ignore_index;
  const Tensor is_class =
      logical_and(labels == arange(classes, {kInt64, target.device()}), counted);
  const Tensor hits = is_class.to(terms.dtype());
  const Tensor share = hits * (1 - label_smoothing) +
                       counted.to(terms.dtype()) * (label_smoothing / static_cast<double>(classes));
  Tensor sums = sum(terms * share, 0);
  if (reduction != "mean") return sums;
  const Tensor total = sum(hits * weight);
  return sums / total - sum(sums * weight) * sum(hits, 0) / square(total);
}

}  // namespace facula
