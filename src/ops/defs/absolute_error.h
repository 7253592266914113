#pragma once

#include "ops/attrs/absolute_error.h"
#include "ops/schema/elementwise.h"
#ifndef FACULA_KERNEL_TU
#include "ops/schema/loss.h"
#endif

namespace facula::scalar {

struct absolute_error_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T self, T target) const {
    return abs(self - target);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_absolute_error() {
  return elementwise<scalar::absolute_error_functor>({
      .signature = "absolute_error(Tensor self, Tensor target) -> Tensor",
      .doc = "|self - target|.  self, target: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            set_difference_gradient(g, absolute_error_backward(g.input(0), g.input(1), g.grad()));
          },
      .saves = {input(0), input(1)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.binary(3.5, 9); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
