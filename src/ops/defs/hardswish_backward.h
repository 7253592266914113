#pragma once

#include "ops/attrs/hardswish_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct hardswish_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    const T middle = grad * (self / K<T>(3) + K<T>(0.5));
    return select(self < K<T>(-3), K<T>(0), select(self <= K<T>(3), middle, grad));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_hardswish_backward() {
  return elementwise<scalar::hardswish_backward_functor>({
      .signature = "hardswish_backward(Tensor grad, Tensor self) -> Tensor",
      .doc = "The gradient of hardswish from its input: 0 below -3, grad above 3, grad * (self / 3 "
             "+ 1 / 2) between.  grad, self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(1);
            if (g.needs(0)) g.set(0, hardswish_backward(g.grad(), self));
            if (g.needs(1)) {
              g.set(1, where(logical_and(self > -3, self < 3), g.grad() * g.input(0) / 3, 0));
            }
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(-5, 5); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
