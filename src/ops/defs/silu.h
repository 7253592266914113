#pragma once

#include "ops/attrs/silu.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct silu_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return x * sigmoid(x);
  }
  static constexpr uint32_t rare = detail::kRarePower;
  FACULA_FN uint32_t rarity(float x) const { return detail::magnitude_rarity(x); }
  FACULA_FN float common(float x) const { return x * common_sigmoid(x); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_silu() {
  return elementwise<scalar::silu_functor>({
      .signature = "silu(Tensor self) -> Tensor",
      .doc = "self * sigmoid(self).  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, silu_backward(g.take_grad(), g.input(0))); },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
