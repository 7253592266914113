#pragma once

#include "ops/attrs/abs.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct abs_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return abs(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_abs() {
  return elementwise<scalar::abs_functor>({
      .signature = "abs(Tensor self) -> Tensor",
      .doc = "Absolute value.  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() * sign(g.input(0))); },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
