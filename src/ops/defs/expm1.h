#pragma once

#include "ops/attrs/expm1.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct expm1_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return expm1(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_expm1() {
  return elementwise<scalar::expm1_functor>({
      .signature = "expm1(Tensor self) -> Tensor",
      .doc = "exp(self) - 1, accurate near 0.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() * (g.output(0) + 1)); },
      .saves = {output(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
