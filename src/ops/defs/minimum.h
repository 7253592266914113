#pragma once

#include "ops/attrs/minimum.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct minimum_functor : NumericFunctor {
  static constexpr DTypes dtypes = kComputeTypes;

  template <class T>
  FACULA_FN T operator()(T a, T b) const {
    return min(a, b);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_minimum() {
  return elementwise<scalar::minimum_functor>({
      .signature = "minimum(Tensor self, Tensor other) -> Tensor",
      .doc = "The smaller of both; NaN if either is NaN. Equal values share the gradient.  "
             "self, other: [*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0), other = g.input(1);
            const Tensor shared = where(self == other, g.grad() * 0.5, g.grad());
            if (g.needs(0)) g.set(0, where(self > other, 0, shared));
            if (g.needs(1)) g.set(1, where(self < other, 0, shared));
          },
      .saves = {input(0), input(1)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.binary();
            s.add({s.mask({3, 4}), s.mask({4})});
          },
      .errors = binary_errors,
      .numbers = fitting_numbers,
  });
}

}  // namespace facula::ops
#endif
