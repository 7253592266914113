#pragma once

#include "ops/attrs/tan.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct tan_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return tan(x);
  }
  static constexpr uint32_t rare = __builtin_bit_cast(uint32_t, detail::kSmallTanAngle);
  template <class F>
  FACULA_FN auto rarity(F x) const {
    return detail::magnitude_rarity(x);
  }
  FACULA_FN uint32_t rarity(double x) const { return detail::angle_rarity(x, rare); }
  template <class F>
  FACULA_FN F near(F x) const {
    return detail::near_tan(x);
  }
  FACULA_FN double common(double x) const { return common_tan(x); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_tan() {
  return elementwise<scalar::tan_functor>({
      .signature = "tan(Tensor self) -> Tensor",
      .doc = "Tangent of self in radians.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor output = g.output(0);
            g.set(0, g.take_grad() * (output * output + 1));
          },
      .saves = {output(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(-1.2, 1.2); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
