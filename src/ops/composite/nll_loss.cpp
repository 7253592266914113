#include <facula/ops.h>

#include "ops/schema/cross_entropy.h"
#include "ops/schema/loss.h"
#include "ops/schema/op_def.h"

namespace facula {

namespace {

/// Without it, the errors would be those of the indexing that picks the labels' elements.
void check_labels(const Tensor& target, std::int64_t classes, std::int64_t ignore_index) {
  if (target.device().is_null()) return;
  const Tensor labels = target.cpu().contiguous();
  const auto* label = labels.data_ptr<std::int64_t>();
  bool all = true;  // first without branches, which would take as long as the loss
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const bool is_class =
        static_cast<std::uint64_t>(label[i]) < static_cast<std::uint64_t>(classes);
    all &= is_class | (label[i] == ignore_index);
  }
  for (std::int64_t i = 0; !all && i < labels.numel(); ++i) {
    if (label[i] != ignore_index) check_label(label[i], i, classes, "nll_loss");
  }
}

}  // namespace

Tensor nll_loss(const Tensor& self, const Tensor& target, const Tensor& weight,
                std::string_view reduction, std::int64_t ignore_index) {
  check_class_scores(self, target, weight, reduction, "nll_loss");
  check_class_indices(self, target, "nll_loss");
  check_not_empty(self, target, reduction, "nll_loss");
  const int dim = self.dim() == 1 ? 0 : 1;
  check_labels(target, self.size(dim), ignore_index);
  const Tensor counted = target != ignore_index;
  const Tensor labels = where(counted, target, 0);
  // Scores are picked where they lie: making rows of classes would move all of them.
  const Tensor picked = squeeze(gather(self, dim, unsqueeze(labels, dim)), dim);
  const Tensor weights = weight.defined()
                             ? reshape(index_select(weight, 0, flatten(labels)), labels.sizes())
                             : Tensor();
  Tensor losses = where(counted, neg(weights.defined() ? picked * weights : picked), 0);
  if (reduction == "none") return losses;
  if (reduction == "sum") return sum(losses);
  return sum(losses) / sum(weights.defined() ? where(counted, weights, 0) : counted);
}

namespace ops {

CompositeDef define_nll_loss() {
  return {
      .signature =
          "nll_loss(Tensor self, Tensor target, Tensor? weight=None, "
          "str reduction='mean', int ignore_index=-100) -> Tensor",
      .doc =
          "Negative log-likelihood of log-probabilities [N, C, ...] or [C] at class indices "
          "[N, ...] or [] int64.",
      .samples =
          [](Samples& s) {
            const Tensor target = tensor({0, 3, 2, -100, 1}, {5}, kInt64);
            s.add({s.normal({5, 4}), target});
            s.add({s.normal({5, 4}), target, s.uniform({4}, 0.5, 2), "sum"});
            s.add({s.normal({5, 4}), tensor({0, 3, 2, 2, 1}, {5}, kInt64), NoneType{}, "none", 2});
            s.add({s.normal({2, 4, 3}), s.integers({2, 3}, 0, 4)});
            s.add({s.normal({2, 4, 2, 3}), s.integers({2, 2, 3}, 0, 4), NoneType{}, "none", 1});
            s.add({s.normal({4}), tensor(std::int64_t{2}), NoneType{}, "none"});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 4}), tensor({0, 1, 2}, {3}, kInt64)}, "target of size");
            e.fails({e.normal({2, 4}), tensor({0, 1}, {2}, kInt64), NoneType{}, "average"},
                    "reduction");
            e.fails({e.normal({0, 4}), tensor({}, {0}, kInt64)}, "has no mean");
            const Tensor target = tensor({0, 1}, {2}, kInt64);
            e.fails({e.normal({2, 4}), tensor({0, 4}, {2}, kInt64)},
                    "nll_loss: label 4 at position 1 is outside [0, 4)");
            e.fails({e.normal({2, 4}), tensor({-1, 1}, {2}, kInt64)}, "set ignore_index");
            e.fails({e.normal({2, 4}), target.to(kUInt8)}, "expected int64 class indices");
            e.fails({e.normal({2, 4}), e.normal({2, 4})}, "expected int64 class indices");
            e.fails({e.normal({2, 4}), target, e.normal({5})}, "weight of size [5] for 4 classes");
            e.fails({e.normal({2, 4}), target, e.normal({4}).to(kFloat64)}, "weight of dtype");
            e.fails({e.normal({2, 4, 3}), target}, "expected [2, 3]");
            e.fails({e.normal({}), target}, "expected [C]");
            e.fails({e.integers({2, 4}, 0, 4), target}, "use float32 or float64");
          },
  };
}

}  // namespace ops
}  // namespace facula
