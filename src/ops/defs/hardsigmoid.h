#pragma once

#include "ops/attrs/hardsigmoid.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct hardsigmoid_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return min(max(x + K<T>(3), K<T>(0)), K<T>(6)) / K<T>(6);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_hardsigmoid() {
  return elementwise<scalar::hardsigmoid_functor>({
      .signature = "hardsigmoid(Tensor self) -> Tensor",
      .doc = "min(max(self + 3, 0), 6) / 6.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) { g.set(0, hardsigmoid_backward(g.take_grad(), g.input(0))); },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(-5, 5); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
