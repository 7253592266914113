#pragma once

#include "ops/attrs/sign.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct sign_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return sign(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_sign() {
  return elementwise<scalar::sign_functor>({
      .signature = "sign(Tensor self) -> Tensor",
      .doc = "-1, 0 or 1 by the sign of self; 0 for NaN.  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, zeros_like(g.grad())); },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
