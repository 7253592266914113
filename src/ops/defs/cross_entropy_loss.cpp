#include "ops/attrs/cross_entropy_loss.h"

#include <facula/ops.h>

#include "ops/schema/cross_entropy.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& attrs = c.attrs<cross_entropy_loss_attrs>();
  check_cross_entropy(c.in(0), c.in(1), c.in(2), attrs.reduction, attrs.label_smoothing);
  const Tensor& logits = c.in(0);
  c.out(logits.dtype(), attrs.reduction == "none" ? Dims{logits.sizes()[0]} : Dims{});
  c.out(logits.dtype(), logits.sizes());
}

void gradient(GradientContext& g) {
  const auto& attrs = g.attrs<cross_entropy_loss_attrs>();
  const Tensor log_probs = g.output(1), target = g.input(1);
  const Tensor weight = g.has_input(2) ? g.input(2) : Tensor();
  if (g.needs(2) && g.grad(0).defined()) {
    const Tensor grad = attrs.reduction == "none" ? unsqueeze(g.grad(0), 1) : g.grad(0);
    g.set(2, cross_entropy_weight_gradient(neg(log_probs * grad), target, weight, attrs.reduction,
                                           attrs.ignore_index, attrs.label_smoothing));
  }
  if (!g.needs(0)) return;
  Tensor result;
  if (g.grad(0).defined()) {
    result = cross_entropy_loss_backward(g.grad(0), log_probs, target, weight, attrs.reduction,
                                         attrs.ignore_index, attrs.label_smoothing);
  }
  if (g.grad(1).defined()) {
    const Tensor through = log_softmax_backward(g.grad(1), log_probs, 1);
    result = result.defined() ? result + through : through;
  }
  g.set(0, result);
}

}  // namespace

OpDef define_cross_entropy_loss() {
  return {
      .signature =
          "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, "
          "str reduction='mean', int ignore_index=-100, float label_smoothing=0) -> "
          "(Tensor, Tensor)",
      .doc =
          "Cross-entropy of logits against class indices, and the logits' log-softmax.  self: [N, "
          "C] floating, target: [N] int64, weight: [C] -> [] (reduction none: [N]), [N, C].",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(1), input(2), output(1)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            const Tensor target = tensor({0, 3, 2, -100, 1}, {5}, kInt64);
            s.add({s.normal({5, 4}), target});
            s.add({s.normal({5, 4}), target, s.uniform({4}, 0.5, 2), "mean", -100, 0.1});
            s.add({s.normal({5, 4}), tensor({0, 3, 2, 2, 1}, {5}, kInt64), NoneType{}, "sum", 2,
                   0.2});
            s.add({s.normal({5, 4}), target, NoneType{}, "none"});
          },
      .errors =
          [](ErrorSamples& e) {
            const Tensor target = tensor({0, 4}, {2}, kInt64);
            e.fails({e.normal({2, 4}), target}, "label 4");
            e.fails({e.normal({3, 5}), target}, "target of size");
            e.fails({e.normal({2, 5}), e.normal({2})}, "int64");
            e.fails({e.normal({2, 5}), target, NoneType{}, "average"}, "reduction");
            e.fails({e.normal({2, 5}), target, e.normal({3})}, "weight");
            e.fails({e.normal({2, 5}), target, NoneType{}, "mean", -100, 1.5}, "label_smoothing");
          },
  };
}

}  // namespace facula::ops
