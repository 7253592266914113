#pragma once

#include "ops/attrs/gelu_erf.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct gelu_erf_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return gelu(x);
  }
  template <class F>
  FACULA_FN F near(F x) const {
    return detail::near_gelu(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_gelu_erf() {
  return elementwise<scalar::gelu_erf_functor>({
      .signature = "gelu_erf(Tensor self) -> Tensor",
      .doc = "self * Phi(self), Phi the standard normal distribution function: gelu without "
             "approximation.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) { g.set(0, gelu_erf_backward(g.take_grad(), g.input(0))); },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
