#include "ops/attrs/nll_loss.h"

#include <facula/ops.h>

#include "ops/schema/cross_entropy.h"
#include "ops/schema/loss.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const Tensor &self = c.in(0), &target = c.in(1);
  const auto& attrs = c.attrs<nll_loss_attrs>();
  check_class_scores(self, target, c.in(2), attrs.reduction, "nll_loss");
  check_class_indices(self, target, "nll_loss");
  check_not_empty(self, target, attrs.reduction, "nll_loss");
  c.out(self.dtype(), attrs.reduction == "none" ? Dims(target.sizes()) : Dims{});
}

void gradient(GradientContext& g) {
  const auto& attrs = g.attrs<nll_loss_attrs>();
  const Tensor self = g.input(0), target = g.input(1);
  const Tensor weight = g.has_input(2) ? g.input(2) : Tensor();
  if (g.needs(0)) {
    g.set(0,
          nll_loss_backward(g.grad(), self, target, weight, attrs.reduction, attrs.ignore_index));
  }
  if (g.needs(2)) {
    const Tensor grad = attrs.reduction == "none" ? reshape(g.grad(), {-1, 1}) : g.grad();
    g.set(2, cross_entropy_weight_gradient(neg(rows_of_classes(self) * grad), flatten(target),
                                           weight, attrs.reduction, attrs.ignore_index, 0));
  }
}

}  // namespace

OpDef define_nll_loss() {
  return {
      .signature =
          "nll_loss(Tensor self, Tensor target, Tensor? weight=None, "
          "str reduction='mean', int ignore_index=-100) -> Tensor",
      .doc =
          "Negative log-likelihood of log-probabilities at class indices.  self: [N, C, ...] or "
          "[C] floating, target: [N, ...] or [] int64, weight: [C] -> [] (reduction none: [N, ...] "
          "or []).",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(0), input(1), input(2)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
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

}  // namespace facula::ops
