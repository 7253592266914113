#include "ops/attrs/nll_loss_backward.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/checks.h"
#include "ops/schema/cross_entropy.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const Tensor &grad = c.in(0), &self = c.in(1), &target = c.in(2);
  const auto& attrs = c.attrs<nll_loss_backward_attrs>();
  check_class_scores(self, target, c.in(3), attrs.reduction, "nll_loss_backward");
  check_class_indices(self, target, "nll_loss_backward");
  check_defined("nll_loss_backward", grad);
  check<DTypeError>(grad.dtype() == self.dtype(),
                    "nll_loss_backward: a {} grad for a {} input; both must be of one dtype",
                    name_of(grad.dtype()), name_of(self.dtype()));
  const Dims expected = attrs.reduction == "none" ? Dims(target.sizes()) : Dims{};
  check<ShapeError>(grad.sizes() == expected,
                    "nll_loss_backward: grad has size {}, expected {} for reduction '{}'",
                    grad.sizes(), expected, attrs.reduction);
  c.out(self.dtype(), self.sizes(), is_channels_last(self) ? kChannelsLast : kContiguous);
}

/// Linear in grad: the transpose of what nll_loss does to its input.
void gradient(GradientContext& g) {
  const auto& attrs = g.attrs<nll_loss_backward_attrs>();
  const Tensor grad = g.input(0), target = g.input(2);
  const Tensor weight = g.has_input(3) ? g.input(3) : Tensor();
  if (g.needs(0)) {
    g.set(0, nll_loss(g.grad(), target, weight, attrs.reduction, attrs.ignore_index));
  }
  if (g.needs(1)) g.set(1, zeros_like(g.grad()));
  if (g.needs(3)) {
    const Tensor scale = attrs.reduction == "none" ? reshape(grad, {-1, 1}) : grad;
    g.set(3, cross_entropy_weight_gradient(neg(rows_of_classes(g.grad()) * scale), flatten(target),
                                           weight, attrs.reduction, attrs.ignore_index, 0));
  }
}

}  // namespace

OpDef define_nll_loss_backward() {
  return {
      .signature =
          "nll_loss_backward(Tensor grad, Tensor self, Tensor target, Tensor? weight, "
          "str reduction, int ignore_index) -> Tensor",
      .doc =
          "Gradient of nll_loss with respect to its input, of which only the form matters.  grad: "
          "[] (reduction none: [N, ...] or []), self: [N, C, ...] or [C] floating, target: [N, "
          "...] or [] int64, weight: [C] -> self's size.",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(0), shape_of(1), input(2), input(3)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            const Tensor target = tensor({0, 3, 2, -100, 1}, {5}, kInt64);
            s.add({s.normal({}), s.normal({5, 4}), target, NoneType{}, "mean", -100});
            s.add({s.normal({5}), s.normal({5, 4}), target, s.uniform({4}, 0.5, 2), "none", -100});
            s.add({s.normal({}), s.normal({2, 4, 2, 3}), s.integers({2, 2, 3}, 0, 4),
                   s.uniform({4}, 0.5, 2), "mean", 1});
            s.add({s.normal({}), s.normal({2, 4, 2, 3}).contiguous(kChannelsLast),
                   s.integers({2, 2, 3}, 0, 4), NoneType{}, "sum", 1});
            s.add({s.normal({}), s.normal({4}), tensor(std::int64_t{2}), NoneType{}, "none", -100});
          },
      .errors =
          [](ErrorSamples& e) {
            const Tensor target = tensor({0, 3}, {2}, kInt64);
            e.fails({e.normal({}), e.normal({2, 4}), e.normal({2}), NoneType{}, "mean", -100},
                    "int64");
            e.fails({e.normal({}), e.normal({2, 3}), target, NoneType{}, "sum", -100},
                    "nll_loss: label 3 at position 1 is outside [0, 3)");
            e.fails({e.normal({}), e.normal({2, 4}), target, NoneType{}, "none", -100},
                    "grad has size [], expected [2]");
            e.fails({e.normal({}).to(kFloat64), e.normal({2, 4}), target, NoneType{}, "sum", -100},
                    "a float64 grad");
          },
  };
}

}  // namespace facula::ops
