#pragma once

#include "ops/attrs/lt.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct lt_functor : PredicateFunctor {
  template <class T>
  FACULA_FN auto operator()(T a, T b) const {
    return a < b;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_lt() {
  return elementwise<scalar::lt_functor>({
      .signature = "lt(Tensor self, Tensor other) -> Tensor",
      .doc = "Elementwise self < other.  self, other: [*] -> bool [*].",
      .gradient = not_differentiable("the result is bool"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
