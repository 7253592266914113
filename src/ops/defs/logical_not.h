#pragma once

#include "ops/attrs/logical_not.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct logical_not_functor : PredicateFunctor {
  template <class T>
  FACULA_FN auto operator()(T x) const {
    return x == K<T>(0);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_logical_not() {
  return elementwise<scalar::logical_not_functor>({
      .signature = "logical_not(Tensor self) -> Tensor",
      .doc = "True where self is zero.  self: [*] -> bool [*].",
      .gradient = not_differentiable("the result is bool"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.mask({3, 4})});
            s.add({s.integers({6}, -1, 2)});
            s.unary();
          },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
