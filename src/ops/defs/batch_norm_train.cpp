#include "ops/attrs/batch_norm_train.h"

#include <facula/ops.h>

#include "ops/schema/batch_norm.h"

namespace facula::ops {
namespace {

void gradient(GradientContext& g) {
  const Tensor input = g.input(0);
  const Tensor weight = g.has_input(1) ? g.input(1) : Tensor();
  const bool of_statistics = g.grad(1).defined() || g.grad(2).defined() || g.grad(3).defined();
  if (g.higher_order() || !g.grad(0).defined() || of_statistics) {
    return composed_batch_norm_gradient(g, g.grad(0), g.grad(3), input, weight,
                                        g.attrs<batch_norm_train_attrs>().eps);
  }
  set_batch_norm_gradients(g,
                           batch_norm_backward(g.grad(), input, weight, g.output(1), g.output(2)));
}

}  // namespace

OpDef define_batch_norm_train() {
  return {
      .signature =
          "batch_norm_train(Tensor self, Tensor? weight=None, Tensor? bias=None, "
          "float eps=1e-05) -> (Tensor, Tensor, Tensor, Tensor)",
      .doc =
          "Normalizes each channel by the batch's own mean and biased variance; returns the "
          "result, the means, 1/sqrt(variance + eps) and the variances.  self: [N, C, ...] "
          "floating, weight, bias: [C] -> [N, C, ...], [C], [C], [C].",
      .infer =
          [](Infer& c) {
            infer_batch_norm(c, "batch_norm");
            c.out(c.in(0).dtype(), {c.in(0).size(1)});
          },
      .gradient = gradient,
      .saves = {input(0), input(1), output(1), output(2)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({6, 3})});
            s.add({s.normal({4, 3, 5, 2}), s.uniform({3}, 0.5, 2), s.normal({3})});
            s.add({s.normal({4, 70, 2}), s.uniform({70}, 0.5, 2), s.normal({70}), 0.1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({4})}, "expected [N, C]");
            e.fails({e.normal({4, 3}), e.normal({4})}, "weight of size");
            e.fails({e.normal({1, 3})}, "no variance");
            e.fails({e.integers({4, 3}, 0, 5)}, "not supported");
          },
  };
}

}  // namespace facula::ops
