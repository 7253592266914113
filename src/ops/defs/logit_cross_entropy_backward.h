#pragma once

#include "ops/attrs/logit_cross_entropy_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct logit_cross_entropy_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T self, T target, T grad) const {
    return (sigmoid(self) - target) * grad;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_logit_cross_entropy_backward() {
  return elementwise<scalar::logit_cross_entropy_backward_functor>({
      .signature =
          "logit_cross_entropy_backward(Tensor self, Tensor target, Tensor grad) -> Tensor",
      .doc = "The gradient of logit_cross_entropy from self: (sigmoid(self) - target) grad.  self, "
             "target, grad: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0), grad = g.grad();
            if (g.needs(0)) g.set(0, sigmoid_backward(g.input(2) * grad, sigmoid(self)));
            if (g.needs(1)) g.set(1, neg(g.input(2) * grad));
            if (g.needs(2)) g.set(2, logit_cross_entropy_backward(self, g.input(1), grad));
          },
      .saves = {input(0), input(1).for_grad_of(2), input(2)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.ternary(2.5, 5); },
      .errors = ternary_errors,
  });
}

}  // namespace facula::ops
#endif
