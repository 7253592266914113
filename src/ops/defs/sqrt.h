#pragma once

#include "ops/attrs/sqrt.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct sqrt_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return sqrt(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_sqrt() {
  return elementwise<scalar::sqrt_functor>({
      .signature = "sqrt(Tensor self) -> Tensor",
      .doc = "Square root; NaN for negative values.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() / (g.output(0) * 2)); },
      .saves = {output(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(0.3, 4); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
