#include "ops/attrs/softmax_backward.h"

#include <facula/ops.h>

#include "ops/schema/softmax.h"

namespace facula::ops {
namespace {

/// The result is y * (g - sum(g * y)), linear in the grad g and with a symmetric matrix.
void gradient(GradientContext& g) {
  const std::int64_t dim = g.attrs<softmax_backward_attrs>().dim;
  const Tensor output = g.input(1);
  if (g.needs(0)) g.set(0, softmax_backward(g.grad(), output, dim));
  if (g.needs(1)) {
    const Tensor grad = g.input(0);
    g.set(1, g.grad() * (grad - sum(grad * output, dim, true)) -
                 grad * sum(g.grad() * output, dim, true));
  }
}

}  // namespace

OpDef define_softmax_backward() {
  return {
      .signature = "softmax_backward(Tensor grad, Tensor output, int dim) -> Tensor",
      .doc =
          "output * (grad - sum(grad * output)) along dim: the gradient of softmax from its "
          "output.  grad, output: [*] floating -> [*].",
      .infer = [](Infer& c) { infer_softmax_backward(c, c.attrs<softmax_backward_attrs>().dim); },
      .gradient = gradient,
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5}), s.uniform({5}, 0.1, 0.3), 0});
            s.add({s.normal({3, 37}), s.uniform({3, 37}, 0, 0.05), 1});
            s.add({s.normal({3, 4, 2}), s.uniform({3, 4, 2}, 0.1, 0.4), 1});
            s.add({s.normal({2, 3, 4, 5}), s.uniform({2, 3, 4, 5}, 0.1, 0.6), -3});
            s.add({s.normal({}), s.uniform({}, 0.5, 1), 0});
          },
      .errors = softmax_backward_errors,
  };
}

}  // namespace facula::ops
