#include "ops/attrs/batch_norm_relu.h"

#include <facula/ops.h>

#include "ops/schema/batch_norm.h"
#include "ops/schema/channels.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  infer_batch_norm(c, "batch_norm_relu");
  check_residual(c.in(3), c.in(0), "batch_norm_relu");
  check_cap(c.attrs<batch_norm_relu_attrs>().cap, "batch_norm_relu");
}

void gradient(GradientContext& g) {
  const auto& attrs = g.attrs<batch_norm_relu_attrs>();
  const Tensor input = g.input(0);
  const Tensor weight = g.has_input(1) ? g.input(1) : Tensor();
  const Tensor bias = g.has_input(2) ? g.input(2) : Tensor();
  const bool residual = g.has_input(3);
  const bool only_result = g.grad(0).defined() && !g.grad(1).defined() && !g.grad(2).defined();
  if (only_result && !residual && !g.higher_order()) {
    return set_batch_norm_gradients(
        g, batch_norm_relu_backward(g.grad(), input, weight, bias, g.output(1), g.output(2),
                                    attrs.cap));
  }
  Tensor grad = g.take_grad();
  if (grad.defined()) {
    const Tensor result = residual ? g.output(0)
                                   : batch_norm_apply(input, g.output(1), g.output(2), weight, bias,
                                                      {}, true, attrs.cap)
                                         .detach();
    grad = relu_backward(std::move(grad), result, attrs.cap);
    if (g.needs(3)) g.set(3, grad);
  }
  if (g.higher_order() || !only_result) {
    return composed_batch_norm_gradient(g, grad, {}, input, weight, attrs.eps);
  }
  set_batch_norm_gradients(g, batch_norm_backward(grad, input, weight, g.output(1), g.output(2)));
}

}  // namespace

OpDef define_batch_norm_relu() {
  return {
      .signature =
          "batch_norm_relu(Tensor self, Tensor? weight=None, Tensor? bias=None, "
          "Tensor? residual=None, float eps=1e-05, float? cap=None) -> (Tensor, Tensor, Tensor)",
      .doc =
          "relu(batch_norm_train(self) + residual) in one pass, at most cap (6 in relu6); returns "
          "also the means and 1/sqrt(variance + eps).  self, residual: [N, C, ...] floating, "
          "weight, bias: [C] -> [N, C, ...], [C], [C].",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(0), input(1), input(2), shape_of(3), output(0).with_input(3), output(1),
                output(2)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({6, 3})});
            s.add({s.normal({4, 3, 5, 2}), s.uniform({3}, 0.5, 2), s.normal({3})});
            s.add({s.normal({4, 3, 5, 2}), s.uniform({3}, 0.5, 2), s.normal({3}),
                   s.normal({4, 3, 5, 2})});
            s.add({s.normal({4, 70, 2}), s.uniform({70}, 0.5, 2), s.normal({70}),
                   s.normal({4, 70, 2}), 0.1});
            s.add({s.normal({4, 20, 5}), s.uniform({20}, 0.5, 2), s.normal({20}), NoneType{}, 1e-5,
                   0.75});
            s.add({s.normal({4, 3, 5}), NoneType{}, NoneType{}, s.normal({4, 3, 5}), 1e-5, 0.75});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({4})}, "expected [N, C]");
            e.fails({e.normal({4, 3}), e.normal({4})}, "weight of size");
            e.fails({e.normal({1, 3})}, "no variance");
            e.fails({e.normal({4, 3}), NoneType{}, NoneType{}, e.normal({4, 1})},
                    "residual of size");
            e.fails({e.normal({4, 3}), NoneType{}, NoneType{}, NoneType{}, 1e-5, 0.0},
                    "not positive");
          },
  };
}

}  // namespace facula::ops
