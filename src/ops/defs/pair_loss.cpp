#include "ops/attrs/pair_loss.h"

#include <facula/ops.h>

#include "ops/schema/loss.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& attrs = c.attrs<pair_loss_attrs>();
  pair_loss_named(attrs.loss);
  check_loss(c.in(0), c.in(1), attrs.reduction, "pair_loss");
  check<ValueError>(attrs.reduction != "none", "pair_loss: reduction none is the op {} itself",
                    attrs.loss);
  const DType dtype = c.in(0).dtype();
  check<DTypeError>(kFloatingTypes.contains(dtype) && c.in(1).dtype() == dtype,
                    "{} of {}: dtypes {} and {} are not supported; convert both with to(kFloat32)",
                    attrs.reduction, attrs.loss, name_of(dtype), name_of(c.in(1).dtype()));
  c.out(dtype, {});
}

void gradient(GradientContext& g) {
  const auto& attrs = g.attrs<pair_loss_attrs>();
  const bool mean = attrs.reduction == "mean";
  const Tensor grad = mean ? g.grad() / static_cast<double>(g.input(0).numel()) : g.grad();
  pair_loss_named(attrs.loss).gradient(g, grad, attrs.parameter);
}

}  // namespace

OpDef define_pair_loss() {
  return {
      .signature =
          "pair_loss(Tensor self, Tensor target, str loss, str reduction, float parameter=0) -> "
          "Tensor",
      .doc =
          "Sum or mean of an elementwise loss (squared_error, absolute_error, huber_error with "
          "parameter delta, logit_cross_entropy) in one pass.  self, target: [*] floating -> [].",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(0), input(1)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 2.5, 5), "squared_error", "mean"});
            s.add({s.normal({70}), s.uniform({70}, 2.5, 5), "absolute_error", "sum"});
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 2.5, 5), "huber_error", "mean", 3.7});
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 1), "logit_cross_entropy", "sum"});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({3}), "squared_error", "sum"}, "target of size");
            e.fails({e.normal({3}), e.normal({3}), "cubic_error", "sum"}, "unknown loss");
            e.fails({e.normal({3}), e.normal({3}), "squared_error", "none"}, "itself");
            e.fails({e.normal({3}), e.integers({3}, 0, 2), "squared_error", "sum"},
                    "not supported");
          },
  };
}

}  // namespace facula::ops
