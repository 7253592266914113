#include <facula/ops.h>

#include "ops/schema/loss.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor nll_loss(const Tensor& self, const Tensor& target, const Tensor& weight,
                std::string_view reduction, std::int64_t ignore_index) {
  check<ValueError>(self.defined() && target.defined(),
                    "nll_loss: an input is an undefined tensor");
  check<ShapeError>(
      self.dim() == 2 && target.dim() == 1 && target.size(0) == self.size(0),
      "nll_loss: target of size {} for log-probabilities of size {}, expected [N] and "
      "[N, C]",
      target.sizes(), self.sizes());
  check<ValueError>(reduction == "mean" || reduction == "sum" || reduction == "none",
                    "nll_loss: unknown reduction \"{}\"; use mean, sum or none", reduction);
  check_not_empty(self, target, reduction, "nll_loss");
  const Tensor counted = target != ignore_index;
  const Tensor labels = where(counted, target, 0);
  const Tensor picked = reshape(gather(self, 1, reshape(labels, {-1, 1})), -1);
  const Tensor weights =
      weight.defined() ? index_select(weight, 0, labels) : ones_like(picked.detach());
  Tensor losses = where(counted, neg(picked * weights), 0);
  if (reduction == "none") return losses;
  return reduction == "sum" ? sum(losses) : sum(losses) / sum(where(counted, weights, 0));
}

namespace ops {

CompositeDef define_nll_loss() {
  return {
      .signature =
          "nll_loss(Tensor self, Tensor target, Tensor? weight=None, "
          "str reduction='mean', int ignore_index=-100) -> Tensor",
      .doc = "Negative log-likelihood of log-probabilities [N, C] at class indices [N] int64.",
      .samples =
          [](Samples& s) {
            const Tensor target = tensor({0, 3, 2, -100, 1}, {5}, kInt64);
            s.add({s.normal({5, 4}), target});
            s.add({s.normal({5, 4}), target, s.uniform({4}, 0.5, 2), "sum"});
            s.add({s.normal({5, 4}), tensor({0, 3, 2, 2, 1}, {5}, kInt64), NoneType{}, "none", 2});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 4}), tensor({0, 1, 2}, {3}, kInt64)}, "target of size");
            e.fails({e.normal({2, 4}), tensor({0, 1}, {2}, kInt64), NoneType{}, "average"},
                    "reduction");
            e.fails({e.normal({0, 4}), tensor({}, {0}, kInt64)}, "has no mean");
          },
  };
}

}  // namespace ops
}  // namespace facula
