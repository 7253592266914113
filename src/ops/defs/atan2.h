#pragma once

#include "ops/attrs/atan2.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct atan2_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T a, T b) const {
    return atan2(a, b);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_atan2() {
  return elementwise<scalar::atan2_functor>({
      .signature = "atan2(Tensor self, Tensor other) -> Tensor",
      .doc = "The angle of the point (other, self), within [-pi, pi].  self, other: [*] "
             "floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0), other = g.input(1);
            const Tensor scaled = g.take_grad() / (self * self + other * other);
            if (g.needs(0)) g.set(0, scaled * other);
            if (g.needs(1)) g.set(1, neg(scaled * self));
          },
      .saves = {input(0), input(1)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.binary();
            s.add({tensor({0, 0, 1, -1}, {-1}, kInt64), tensor({1, -1, 0, 0}, {-1}, kInt64)});
          },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
