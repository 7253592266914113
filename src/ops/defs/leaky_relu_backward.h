#pragma once

#include "ops/attrs/leaky_relu_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct leaky_relu_backward_functor : FloatingFunctor, ops::leaky_relu_backward_attrs {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    return select(self > K<T>(0), grad, grad * K<T>(negative_slope));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_leaky_relu_backward() {
  return elementwise<scalar::leaky_relu_backward_functor>({
      .signature = "leaky_relu_backward(Tensor grad, Tensor self, float negative_slope) -> Tensor",
      .doc = "grad where self > 0, else negative_slope * grad: the gradient of leaky_relu.  grad, "
             "self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const double slope = g.attrs<ops::leaky_relu_backward_attrs>().negative_slope;
            if (g.needs(0)) g.set(0, leaky_relu_backward(g.grad(), g.input(1), slope));
            if (g.needs(1)) g.set(1, zeros_like(g.grad()));
          },
      .saves = {input(1)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4}), 0.2});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({4}), 0.1}, "broadcast");
          },
  });
}

}  // namespace facula::ops
#endif
