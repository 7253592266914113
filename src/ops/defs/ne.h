#pragma once

#include "ops/attrs/ne.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct ne_functor : PredicateFunctor {
  template <class T>
  FACULA_FN auto operator()(T a, T b) const {
    return a != b;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_ne() {
  return elementwise<scalar::ne_functor>({
      .signature = "ne(Tensor self, Tensor other) -> Tensor",
      .doc = "Elementwise self != other.  self, other: [*] -> bool [*].",
      .gradient = not_differentiable("the result is bool"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
