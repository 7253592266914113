#pragma once

#include "ops/attrs/logical_and.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct logical_and_functor : PredicateFunctor {
  template <class T>
  FACULA_FN auto operator()(T a, T b) const {
    return (a != K<T>(0)) & (b != K<T>(0));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_logical_and() {
  return elementwise<scalar::logical_and_functor>({
      .signature = "logical_and(Tensor self, Tensor other) -> Tensor",
      .doc = "True where both are nonzero.  self, other: [*] -> bool [*].",
      .gradient = not_differentiable("the result is bool"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.mask({3, 4}), s.mask({4})});
            s.add({s.integers({5}, -1, 2), s.integers({5}, -1, 2)});
            s.add({s.normal({2, 2}), s.mask({2, 1})});
          },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
