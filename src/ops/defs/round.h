#pragma once

#include "ops/attrs/round.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct round_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return round(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_round() {
  return elementwise<scalar::round_functor>({
      .signature = "round(Tensor self) -> Tensor",
      .doc = "The nearest integer, ties to even.  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, zeros_like(g.grad())); },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
