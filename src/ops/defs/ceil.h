#pragma once

#include "ops/attrs/ceil.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct ceil_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return ceil(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_ceil() {
  return elementwise<scalar::ceil_functor>({
      .signature = "ceil(Tensor self) -> Tensor",
      .doc = "The least integer not below self.  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, zeros_like(g.grad())); },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
