#pragma once

#include "ops/attrs/squared_error.h"
#include "ops/schema/elementwise.h"
#ifndef FACULA_KERNEL_TU
#include "ops/schema/loss.h"
#endif

namespace facula::scalar {

struct squared_error_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T self, T target) const {
    const T difference = self - target;
    return difference * difference;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_squared_error() {
  return elementwise<scalar::squared_error_functor>({
      .signature = "squared_error(Tensor self, Tensor target) -> Tensor",
      .doc = "(self - target)^2.  self, target: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            set_difference_gradient(g, squared_error_backward(g.input(0), g.input(1), g.grad()));
          },
      .saves = {input(0), input(1)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.binary(3.5, 9); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
