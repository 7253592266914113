#include "ops/attrs/cross_entropy_loss_backward.h"

#include <facula/ops.h>

#include <limits>

#include "ops/schema/checks.h"
#include "ops/schema/cross_entropy.h"

namespace facula::ops {
namespace {

using Attrs = cross_entropy_loss_backward_attrs;

void infer(Infer& c) {
  const auto& attrs = c.attrs<Attrs>();
  check_cross_entropy(c.in(1), c.in(2), c.in(3), attrs.reduction, attrs.label_smoothing);
  const Tensor& grad = c.in(0);
  const Tensor& log_probs = c.in(1);
  check_defined("cross_entropy_loss_backward", grad);
  check<DTypeError>(grad.dtype() == log_probs.dtype(),
                    "cross_entropy_loss_backward: a {} grad for {} log_probs; both must be of one "
                    "dtype",
                    name_of(grad.dtype()), name_of(log_probs.dtype()));
  const Dims expected = attrs.reduction == "none" ? Dims{log_probs.sizes()[0]} : Dims{};
  check<ShapeError>(grad.sizes() == expected,
                    "cross_entropy_loss_backward: grad has size {}, expected {} for reduction '{}'",
                    grad.sizes(), expected, attrs.reduction);
  c.out(log_probs.dtype(), log_probs.sizes());
}

/// The result is grad * (exp(log_probs) * a - b) with a and b depending on the target alone, so
/// both derivatives follow from the op itself: at grad = 1, and without the exponential.
void gradient(GradientContext& g) {
  const auto& attrs = g.attrs<Attrs>();
  const Tensor grad = g.input(0), log_probs = g.input(1), target = g.input(2);
  const Tensor weight = g.has_input(3) ? g.input(3) : Tensor();
  auto backward = [&](const Tensor& scale, const Tensor& at) {
    return cross_entropy_loss_backward(scale, at, target, weight, attrs.reduction,
                                       attrs.ignore_index, attrs.label_smoothing);
  };
  if (g.needs(0)) {
    const Tensor product = g.grad() * backward(ones_like(grad), log_probs);
    g.set(0, attrs.reduction == "none" ? sum(product, 1) : sum(product));
  }
  if (g.needs(3)) {
    const Tensor scaled = g.grad() * (attrs.reduction == "none" ? unsqueeze(grad, 1) : grad);
    const Tensor terms = sum(scaled * exp(log_probs), 1, true) - scaled;
    g.set(3, cross_entropy_weight_gradient(terms, target, weight, attrs.reduction,
                                           attrs.ignore_index, attrs.label_smoothing));
  }
  if (g.needs(1)) {
    const Tensor nowhere = full_like(log_probs, -std::numeric_limits<double>::infinity());
    g.set(1, g.grad() * (backward(grad, log_probs) - backward(grad, nowhere)));
  }
}

}  // namespace

OpDef define_cross_entropy_loss_backward() {
  return {
      .signature =
          "cross_entropy_loss_backward(Tensor grad, Tensor log_probs, Tensor target, "
          "Tensor? weight, str reduction, int ignore_index, float label_smoothing) -> "
          "Tensor",
      .doc =
          "Gradient of cross_entropy_loss with respect to the logits, from their log-softmax.  "
          "grad: [] (reduction none: [N]), log_probs: [N, C] floating, target: [N] int64, weight: "
          "[C] -> [N, C].",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(0), input(1), input(2), input(3)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            const Tensor target = tensor({0, 3, 2, -100, 1}, {5}, kInt64);
            s.add(
                {s.normal({}), s.uniform({5, 4}, -3, -0.1), target, NoneType{}, "mean", -100, 0.1});
            s.add({s.normal({5}), s.uniform({5, 4}, -3, -0.1), target, s.uniform({4}, 0.5, 2),
                   "none", -100, 0.0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({}), e.normal({2, 4}), e.normal({2}), NoneType{}, "mean", -100, 0.0},
                    "int64");
            const Tensor target = tensor({0, 3}, {2}, kInt64);
            e.fails({e.normal({}), e.normal({2, 4}), target, NoneType{}, "none", -100, 0.0},
                    "grad has size [], expected [2]");
            e.fails({e.normal({0}), e.normal({2, 4}), target, NoneType{}, "mean", -100, 0.0},
                    "grad has size [0], expected []");
            e.fails(
                {e.normal({}).to(kFloat64), e.normal({2, 4}), target, NoneType{}, "sum", -100, 0.0},
                "a float64 grad");
          },
  };
}

}  // namespace facula::ops
