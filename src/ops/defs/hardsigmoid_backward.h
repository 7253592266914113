#pragma once

#include "ops/attrs/hardsigmoid_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct hardsigmoid_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    return select((self > K<T>(-3)) & (self < K<T>(3)), grad / K<T>(6), K<T>(0));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_hardsigmoid_backward() {
  return elementwise<scalar::hardsigmoid_backward_functor>({
      .signature = "hardsigmoid_backward(Tensor grad, Tensor self) -> Tensor",
      .doc = "grad / 6 where -3 < self < 3, else 0: the gradient of hardsigmoid.  grad, self: [*] "
             "floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            if (g.needs(0)) g.set(0, hardsigmoid_backward(g.grad(), g.input(1)));
            if (g.needs(1)) g.set(1, zeros_like(g.grad()));
          },
      .saves = {input(1)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(-5, 5); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
