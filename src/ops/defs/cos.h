#pragma once

#include "ops/attrs/cos.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct cos_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return cos(x);
  }
  static constexpr uint32_t rare = detail::kRareAngle;
  FACULA_FN uint32_t rarity(float x) const { return detail::magnitude_rarity(x); }
  FACULA_FN uint32_t rarity(double x) const { return detail::angle_rarity(x, rare); }
  FACULA_FN float common(float x) const { return common_cos(x); }
  FACULA_FN double common(double x) const { return common_cos(x); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_cos() {
  return elementwise<scalar::cos_functor>({
      .signature = "cos(Tensor self) -> Tensor",
      .doc = "Cosine of self in radians.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, neg(g.take_grad() * sin(g.input(0)))); },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
