#pragma once

#include "ops/attrs/neg.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct neg_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return static_cast<T>(-x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_neg() {
  return elementwise<scalar::neg_functor>({
      .signature = "neg(Tensor self) -> Tensor",
      .doc = "-self.  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, neg(g.take_grad())); },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
