#pragma once

#include "ops/attrs/erf.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct erf_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return erf(x);
  }
  template <class F>
  FACULA_FN F near(F x) const {
    return detail::near_erf(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_erf() {
  return elementwise<scalar::erf_functor>({
      .signature = "erf(Tensor self) -> Tensor",
      .doc = "Gauss error function.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0);
            g.set(0, g.take_grad() * exp(neg(self * self)) * 1.1283791670955126);
          },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
