#pragma once

#include "ops/attrs/huber_error_backward.h"
#include "ops/schema/elementwise.h"
#ifndef FACULA_KERNEL_TU
#include "ops/schema/loss.h"
#endif

namespace facula::scalar {

struct huber_error_backward_functor : FloatingFunctor, ops::huber_error_backward_attrs {
  template <class T>
  FACULA_FN T operator()(T self, T target, T grad) const {
    const T difference = self - target;
    return scalar::min(scalar::max(difference, K<T>(-delta)), K<T>(delta)) * grad;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_huber_error_backward() {
  return elementwise<scalar::huber_error_backward_functor>({
      .signature =
          "huber_error_backward(Tensor self, Tensor target, Tensor grad, float delta=1) -> Tensor",
      .doc = "The gradient of huber_error from self: self - target within [-delta, delta], times "
             "grad.  self, target, grad: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const double delta = g.attrs<ops::huber_error_backward_attrs>().delta;
            const Tensor self = g.input(0), target = g.input(1);
            if (g.needs(2)) g.set(2, huber_error_backward(self, target, g.grad(), delta));
            if (g.needs(0) || g.needs(1)) {
              const Tensor near = abs(self - target) < delta;
              set_difference_gradient(g, where(near, g.input(2) * g.grad(), 0));
            }
          },
      .saves = {input(0), input(1), input(2)},
      .autocast = Autocast::full,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 2.5, 5), s.normal({3, 4}), 3.7});
            s.add({s.normal({3, 4}), s.uniform({4}, 2.5, 5), s.normal({}), 3.7});
          },
      .errors = ternary_errors,
  });
}

}  // namespace facula::ops
#endif
