#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/cross_entropy.h"
#include "ops/schema/in_call.h"
#include "ops/schema/loss.h"
#include "ops/schema/op_def.h"

namespace facula {
namespace {

/// Targets given as probabilities of the input's shape.
Tensor with_probabilities(const Tensor& input, const Tensor& target, const Tensor& weight,
                          std::string_view reduction, double label_smoothing) {
  const std::int64_t class_dim = input.dim() == 1 ? 0 : 1;
  const auto classes = static_cast<double>(input.size(class_dim));
  Tensor wanted = target;
  if (label_smoothing > 0) {
    wanted = target * (1 - label_smoothing) + label_smoothing / classes;
  }
  Tensor terms = log_softmax(input, class_dim) * wanted;
  if (weight.defined()) {
    Dims shape = Dims::filled(input.dim(), 1);
    shape[static_cast<int>(class_dim)] = weight.numel();
    terms = terms * reshape(weight, shape);
  }
  Tensor losses = neg(sum(terms, class_dim));
  if (reduction == "none") return losses;
  const Tensor total = sum(losses);
  return reduction == "sum" ? total : total / static_cast<double>(losses.numel());
}

}  // namespace

Tensor cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight,
                     std::string_view reduction, std::int64_t ignore_index,
                     double label_smoothing) {
  check_class_scores(self, target, weight, reduction, "cross_entropy");
  check_label_smoothing(label_smoothing);
  check_not_empty(self, target, reduction, "cross_entropy");
  if (facula::is_floating_point(target.dtype())) {
    check<ShapeError>(target.sizes() == self.sizes(),
                      "cross_entropy: probabilities of size {} for an input of size {}; they must "
                      "be equal, or the target int64 class indices",
                      target.sizes(), self.sizes());
    return in_call("cross_entropy", {&self, &target, &weight}, [&] {
      return with_probabilities(self, target, weight, reduction, label_smoothing);
    });
  }
  check_class_indices(self, target, "cross_entropy");
  if (self.dim() > 2 && label_smoothing == 0 && !is_channels_last(self)) {
    // To bring classes side by side would move all of them.
    return in_call("cross_entropy", {&self, &target, &weight}, [&] {
      return nll_loss(log_softmax(self, 1), target, weight, reduction, ignore_index);
    });
  }
  return loss_of_rows(self, target, reduction, [&](const Tensor& logits, const Tensor& labels) {
    return std::get<0>(
        cross_entropy_loss(logits, labels, weight, reduction, ignore_index, label_smoothing));
  });
}

namespace ops {

CompositeDef define_cross_entropy() {
  return {
      .signature =
          "cross_entropy(Tensor self, Tensor target, Tensor? weight=None, "
          "str reduction='mean', int ignore_index=-100, float label_smoothing=0) -> "
          "Tensor",
      .doc =
          "Cross-entropy of logits against class indices or class probabilities.  self: [N, C, "
          "...] or [C] floating, target: [N, ...] or [] int64, or self's size floating, weight: "
          "[C] -> [] (reduction none: [N, ...] or []).",
      .samples =
          [](Samples& s) {
            const Tensor target = tensor({0, 3, 2, -100, 1}, {5}, kInt64);
            s.add({s.normal({5, 4}), target});
            s.add({s.normal({5, 4}), target, s.uniform({4}, 0.5, 2), "mean", -100, 0.1});
            s.add({s.normal({2, 4, 3}), s.integers({2, 3}, 0, 4), NoneType{}, "none"});
            s.add({s.normal({4}), tensor(std::int64_t{2}), NoneType{}, "none"});
            s.add({s.normal({3, 4}), softmax(s.normal({3, 4}), 1)});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 4}), tensor({0, 4}, {2}, kInt64)}, "label 4");
            e.fails({e.normal({2, 4, 3}), e.integers({2, 4}, 0, 4)}, "target of size");
            e.fails({e.normal({4}), e.integers({1}, 0, 4)}, "expected []; call squeeze(0)");
            e.fails({e.normal({4, 3}), e.integers({4, 1}, 0, 3)}, "expected [4]; call squeeze(1)");
            e.fails({e.normal({2, 4, 3}), e.integers({2, 1, 3}, 0, 4)}, "call squeeze(1)");
            e.fails({e.normal({}), e.normal({})}, "expected [C]");
            e.fails({e.normal({0, 4}), tensor({}, {0}, kInt64)},
                    "[0, 4] with a target of size [0]");
            e.fails({e.normal({2, 4, 0}), e.normal({2, 4, 0})}, "has no mean");
            const Tensor x = e.normal({2, 4}), probabilities = softmax(e.normal({2, 4}), 1);
            e.fails({x, probabilities, NoneType{}, "average"}, "reduction");
            e.fails({x, probabilities, NoneType{}, "mean", -100, 1.5}, "label_smoothing 1.5");
            e.fails({x, softmax(e.normal({2, 3}), 1)}, "probabilities of size [2, 3]");
            e.fails({x, probabilities, e.normal({3})}, "weight of size [3] for 4 classes");
            e.fails({x, probabilities, e.normal({4, 1})}, "weight of size [4, 1]");
          },
  };
}

}  // namespace ops
}  // namespace facula
