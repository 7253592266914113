#pragma once

#include "ops/attrs/sin.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct sin_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return sin(x);
  }
  static constexpr uint32_t rare = detail::kRareAngle;
  FACULA_FN uint32_t rarity(float x) const { return detail::magnitude_rarity(x); }
  FACULA_FN uint32_t rarity(double x) const { return detail::angle_rarity(x, rare); }
  FACULA_FN float common(float x) const { return common_sin(x); }
  FACULA_FN double common(double x) const { return common_sin(x); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_sin() {
  return elementwise<scalar::sin_functor>({
      .signature = "sin(Tensor self) -> Tensor",
      .doc = "Sine of self in radians.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() * cos(g.input(0))); },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
