#pragma once

#include "ops/attrs/floor.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct floor_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return floor(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_floor() {
  return elementwise<scalar::floor_functor>({
      .signature = "floor(Tensor self) -> Tensor",
      .doc = "The greatest integer not above self.  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, zeros_like(g.grad())); },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
