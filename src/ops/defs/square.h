#pragma once

#include "ops/attrs/square.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct square_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return static_cast<T>(x * x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_square() {
  return elementwise<scalar::square_functor>({
      .signature = "square(Tensor self) -> Tensor",
      .doc = "self * self.  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() * g.input(0) * 2); },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
