#include "ops/attrs/log_softmax_backward.h"

#include <facula/ops.h>

#include "ops/schema/softmax.h"

namespace facula::ops {
namespace {

/// The result is g - exp(y) * sum(g), linear in the grad g.
void gradient(GradientContext& g) {
  const std::int64_t dim = g.attrs<log_softmax_backward_attrs>().dim;
  const Tensor weighted = g.grad() * exp(g.input(1));
  if (g.needs(0)) g.set(0, g.grad() - sum(weighted, dim, true));
  if (g.needs(1)) g.set(1, neg(weighted * sum(g.input(0), dim, true)));
}

}  // namespace

OpDef define_log_softmax_backward() {
  return {
      .signature = "log_softmax_backward(Tensor grad, Tensor output, int dim) -> Tensor",
      .doc =
          "grad - exp(output) * sum(grad) along dim: the gradient of log_softmax from its "
          "output.  grad, output: [*] floating -> [*].",
      .infer =
          [](Infer& c) { infer_softmax_backward(c, c.attrs<log_softmax_backward_attrs>().dim); },
      .gradient = gradient,
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5}), s.uniform({5}, -3, -0.1), 0});
            s.add({s.normal({3, 37}), s.uniform({3, 37}, -5, -2), 1});
            s.add({s.normal({3, 4, 2}), s.uniform({3, 4, 2}, -3, -0.1), 1});
            s.add({s.normal({2, 3, 4, 5}), s.uniform({2, 3, 4, 5}, -3, -0.1), -3});
            s.add({s.normal({}), s.uniform({}, -1, 0), 0});
          },
      .errors = softmax_backward_errors,
  };
}

}  // namespace facula::ops
