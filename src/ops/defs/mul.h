#pragma once

#include "ops/attrs/mul.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct mul_functor : NumericFunctor {
  static constexpr DTypes dtypes = kComputeTypes;

  template <class T>
  FACULA_FN auto operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_mul() {
  return elementwise<scalar::mul_functor>({
      .signature = "mul(Tensor self, Tensor other) -> Tensor",
      .doc = "self * other with broadcasting and type promotion; of masks, the intersection.  "
             "self, other: [*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            if (g.needs(1)) g.set(1, g.grad() * g.input(0));
            if (g.needs(0)) g.set(0, g.take_grad() * g.input(1));
          },
      .saves = {input(0).for_grad_of(1), input(1).for_grad_of(0)},
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
