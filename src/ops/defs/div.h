#pragma once

#include "ops/attrs/div.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct div_functor : FloatingFunctor {
  template <class T>
  FACULA_FN auto operator()(T a, T b) const {
    return a / b;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_div() {
  return elementwise<scalar::div_functor>({
      .signature = "div(Tensor self, Tensor other) -> Tensor",
      .doc = "self / other; integers are converted to floating point.  self, other: [*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor other = g.input(1);
            if (g.needs(1)) g.set(1, neg(g.grad() * g.input(0) / (other * other)));
            if (g.needs(0)) g.set(0, g.take_grad() / other);
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(0.5, 3); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
