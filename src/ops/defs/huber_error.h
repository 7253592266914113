#pragma once

#include "ops/attrs/huber_error.h"
#include "ops/schema/elementwise.h"
#ifndef FACULA_KERNEL_TU
#include "ops/schema/loss.h"
#endif

namespace facula::scalar {

struct huber_error_functor : FloatingFunctor, ops::huber_error_attrs {
  template <class T>
  FACULA_FN T operator()(T self, T target) const {
    const T distance = abs(self - target);
    const T near = distance * distance * K<T>(0.5);
    const T far = (distance - K<T>(0.5 * delta)) * K<T>(delta);
    return select(distance < K<T>(delta), near, far);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_huber_error() {
  return elementwise<scalar::huber_error_functor>({
      .signature = "huber_error(Tensor self, Tensor target, float delta=1) -> Tensor",
      .doc = "d^2 / 2 where the difference d of self and target is below delta, delta (d - delta / "
             "2) beyond.  self, target: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const double delta = g.attrs<ops::huber_error_attrs>().delta;
            set_difference_gradient(g,
                                    huber_error_backward(g.input(0), g.input(1), g.grad(), delta));
          },
      .saves = {input(0), input(1)},
      .autocast = Autocast::full,
      .samples =
          [](Samples& s) {
            s.binary(3.5, 9);
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 2.5, 5), 3.7});
          },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
