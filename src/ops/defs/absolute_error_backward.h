#pragma once

#include "ops/attrs/absolute_error_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct absolute_error_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T self, T target, T grad) const {
    return sign(self - target) * grad;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_absolute_error_backward() {
  return elementwise<scalar::absolute_error_backward_functor>({
      .signature = "absolute_error_backward(Tensor self, Tensor target, Tensor grad) -> Tensor",
      .doc = "The gradient of absolute_error from self: sign(self - target) grad.  self, target, "
             "grad: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            if (g.needs(2)) g.set(2, absolute_error_backward(g.input(0), g.input(1), g.grad()));
          },
      .saves = {input(0).for_grad_of(2), input(1).for_grad_of(2)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.ternary(2.5, 5); },
      .errors = ternary_errors,
  });
}

}  // namespace facula::ops
#endif
