#pragma once

#include "ops/attrs/lerp.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct lerp_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x, T end, T weight) const {
    const T difference = end - x;
    return select(abs(weight) < K<T>(0.5), x + weight * difference,
                  end - difference * (K<T>(1) - weight));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_lerp() {
  return elementwise<scalar::lerp_functor>({
      .signature = "lerp(Tensor self, Tensor end, Tensor weight) -> Tensor",
      .doc = "self + weight * (end - self), computed from the nearer end.  self, end, "
             "weight: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor weight = g.input(2);
            if (g.needs(0)) g.set(0, g.grad() * (1 - weight));
            if (g.needs(1)) g.set(1, g.grad() * weight);
            if (g.needs(2)) g.set(2, g.grad() * (g.input(1) - g.input(0)));
          },
      .saves = {input(0).for_grad_of(2), input(1).for_grad_of(2), input(2)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4}), s.uniform({3, 4}, 0, 1)});
            s.add({s.normal({3, 4}), s.normal({4}), s.uniform({}, 0, 1)});
          },
      .errors = ternary_errors,
  });
}

}  // namespace facula::ops
#endif
