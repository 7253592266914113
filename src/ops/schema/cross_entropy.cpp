#include "ops/schema/cross_entropy.h"

#include <facula/ops.h>

#include "ops/schema/checks.h"

namespace facula {
namespace {

int class_dim(const Tensor& input) { return input.dim() == 1 ? 0 : 1; }

}  // namespace

void check_class_scores(const Tensor& input, const Tensor& target, const Tensor& weight,
                        std::string_view reduction, const char* op) {
  check_defined(op, input, target);
  common_device(op, {&input, &target, &weight});
  check<ShapeError>(input.dim() > 0,
                    "{}: an input of size {}, expected [C], [N, C] or [N, C, ...] with C classes",
                    op, input.sizes());
  check<DTypeError>(kFloatingTypes.contains(input.dtype()),
                    "{}: an input of dtype {} is not supported; use float32 or float64", op,
                    name_of(input.dtype()));
  if (weight.defined()) {
    const std::int64_t classes = input.size(class_dim(input));
    check<ShapeError>(weight.dim() == 1 && weight.size(0) == classes,
                      "{}: weight of size {} for {} classes, expected [{}]", op, weight.sizes(),
                      classes, classes);
    check<DTypeError>(weight.dtype() == input.dtype(),
                      "{}: weight of dtype {} for an input of dtype {}; convert one with to()", op,
                      name_of(weight.dtype()), name_of(input.dtype()));
  }
  check<ValueError>(reduction == "mean" || reduction == "sum" || reduction == "none",
                    "{}: unknown reduction \"{}\"; use mean, sum or none", op, reduction);
}

void check_class_indices(const Tensor& input, const Tensor& target, const char* op) {
  check<DTypeError>(target.dtype() == kInt64,
                    "{}: target of dtype {}, expected int64 class indices; convert it with "
                    "to(kInt64)",
                    op, name_of(target.dtype()));
  Dims positions(input.sizes());
  positions.erase(class_dim(input));
  if (target.sizes() == positions) return;
  // Labels may come as a column, [N, 1].
  Dims column = positions;
  column.insert(class_dim(input), 1);
  const std::string remedy = target.sizes() == column
                                 ? fmt::format("; call squeeze({}) on the target", class_dim(input))
                                 : "";
  fail<ShapeError>("{}: target of size {} for an input of size {}, expected {}{}", op,
                   target.sizes(), input.sizes(), positions, remedy);
}

void check_label_smoothing(double label_smoothing) {
  check<ValueError>(label_smoothing >= 0 && label_smoothing <= 1,
                    "cross_entropy: label_smoothing {} is outside [0, 1]", label_smoothing);
}

void check_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                         std::string_view reduction, double label_smoothing) {
  check_class_scores(logits, target, weight, reduction, "cross_entropy");
  check<ShapeError>(logits.dim() == 2, "cross_entropy: logits of size {}, expected [N, C]",
                    logits.sizes());
  check_class_indices(logits, target, "cross_entropy");
  check_label_smoothing(label_smoothing);
}

Tensor rows_of_classes(const Tensor& input) {
  if (input.dim() == 1) return reshape(input, {1, input.numel()});
  Dims order;
  for (int d = 0; d < input.dim(); ++d) {
    if (d != 1) order.push_back(d);
  }
  order.push_back(1);
  return reshape(permute(input, order), {-1, input.size(1)});
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
