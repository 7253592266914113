#pragma once

#include "ops/attrs/cosh.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct cosh_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return cosh(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_cosh() {
  return elementwise<scalar::cosh_functor>({
      .signature = "cosh(Tensor self) -> Tensor",
      .doc = "Hyperbolic cosine.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() * sinh(g.input(0))); },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
