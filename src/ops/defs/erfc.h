#pragma once

#include "ops/attrs/erfc.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct erfc_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return erfc(x);
  }
  static constexpr uint32_t rare = __builtin_bit_cast(uint32_t, detail::kNearErfc);
  template <class F>
  FACULA_FN auto rarity(F x) const {
    return detail::magnitude_rarity(x);
  }
  template <class F>
  FACULA_FN F near(F x) const {
    return detail::near_erfc(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_erfc() {
  return elementwise<scalar::erfc_functor>({
      .signature = "erfc(Tensor self) -> Tensor",
      .doc = "1 - erf(self), accurate in the tail.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0);
            g.set(0, g.take_grad() * exp(neg(self * self)) * -1.1283791670955126);
          },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
