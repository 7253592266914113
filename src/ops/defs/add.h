#pragma once

#include "ops/attrs/add.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct add_functor : NumericFunctor {
  static constexpr DTypes dtypes = kComputeTypes;

  template <class T>
  FACULA_FN auto operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_add() {
  return elementwise<scalar::add_functor>({
      .signature = "add(Tensor self, Tensor other) -> Tensor",
      .doc = "self + other with broadcasting and type promotion; of masks, the union.  "
             "self, other: [*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            if (g.needs(0)) g.set(0, g.grad());
            if (g.needs(1)) g.set(1, g.grad());
          },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.binary();
            s.add({s.mask({3, 4}), s.mask({4})});
          },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
