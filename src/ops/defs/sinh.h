#pragma once

#include "ops/attrs/sinh.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct sinh_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return sinh(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_sinh() {
  return elementwise<scalar::sinh_functor>({
      .signature = "sinh(Tensor self) -> Tensor",
      .doc = "Hyperbolic sine.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() * cosh(g.input(0))); },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
