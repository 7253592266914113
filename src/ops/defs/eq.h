#pragma once

#include "ops/attrs/eq.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct eq_functor : PredicateFunctor {
  template <class T>
  FACULA_FN auto operator()(T a, T b) const {
    return a == b;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_eq() {
  return elementwise<scalar::eq_functor>({
      .signature = "eq(Tensor self, Tensor other) -> Tensor",
      .doc = "Elementwise self == other.  self, other: [*] -> bool [*].",
      .gradient = not_differentiable("the result is bool"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
