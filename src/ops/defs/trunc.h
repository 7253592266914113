#pragma once

#include "ops/attrs/trunc.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct trunc_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return trunc(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_trunc() {
  return elementwise<scalar::trunc_functor>({
      .signature = "trunc(Tensor self) -> Tensor",
      .doc = "self without its fractional part.  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, zeros_like(g.grad())); },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
