#pragma once

#include "ops/attrs/floor_divide.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct floor_divide_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T a, T b) const {
    return floor_divide(a, b);
  }
  static constexpr uint32_t rare = detail::kRareQuotient;
  FACULA_FN uint32_t rarity(float a, float b) const { return detail::quotient_rarity(a, b); }
  FACULA_FN uint32_t rarity(double a, double b) const { return detail::quotient_rarity(a, b); }
  FACULA_FN float common(float a, float b) const { return common_floor_divide(a, b); }
  FACULA_FN double common(double a, double b) const { return common_floor_divide(a, b); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_floor_divide() {
  return elementwise<scalar::floor_divide_functor>({
      .signature = "floor_divide(Tensor self, Tensor other) -> Tensor",
      .doc = "self / other rounded down. Integers: 0 for other = 0.  self, other: [*] -> "
             "[*].",
      .gradient =
          [](GradientContext& g) {
            if (g.needs(0)) g.set(0, zeros_like(g.grad()));
            if (g.needs(1)) g.set(1, zeros_like(g.grad()));
          },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.binary(0.6, 2.5);
            s.add({s.normal({4}), s.uniform({4}, -2.5, -0.6)});
            s.add({s.integers({8}, -9, 9), s.integers({8}, 1, 5)});
            s.add({s.integers({8}, -9, 9), s.integers({8}, -5, 0)});
          },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
