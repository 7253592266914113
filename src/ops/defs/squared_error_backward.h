#pragma once

#include "ops/attrs/squared_error_backward.h"
#include "ops/schema/elementwise.h"
#ifndef FACULA_KERNEL_TU
#include "ops/schema/loss.h"
#endif

namespace facula::scalar {

struct squared_error_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T self, T target, T grad) const {
    return K<T>(2) * (self - target) * grad;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_squared_error_backward() {
  return elementwise<scalar::squared_error_backward_functor>({
      .signature = "squared_error_backward(Tensor self, Tensor target, Tensor grad) -> Tensor",
      .doc = "The gradient of squared_error from self: 2 (self - target) grad.  self, target, "
             "grad: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            if (g.needs(2)) g.set(2, squared_error_backward(g.input(0), g.input(1), g.grad()));
            if (g.needs(0) || g.needs(1)) set_difference_gradient(g, g.input(2) * g.grad() * 2);
          },
      .saves = {input(0).for_grad_of(2), input(1).for_grad_of(2), input(2)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.ternary(2.5, 5); },
      .errors = ternary_errors,
  });
}

}  // namespace facula::ops
#endif
