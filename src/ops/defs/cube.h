#pragma once

#include "ops/attrs/cube.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct cube_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return static_cast<T>(static_cast<T>(x * x) * x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_cube() {
  return elementwise<scalar::cube_functor>({
      .signature = "cube(Tensor self) -> Tensor",
      .doc = "self * self * self, as pow(self, 3) computes it.  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() * square(g.input(0)) * 3); },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
