#pragma once

#include "ops/attrs/log1p.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct log1p_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return log1p(x);
  }
  static constexpr uint32_t rare = detail::kRareLog1p;
  template <class F>
  FACULA_FN auto rarity(F x) const {
    return detail::log1p_rarity(x);
  }
  template <class F>
  FACULA_FN F near(F x) const {
    return detail::near_log1p(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_log1p() {
  return elementwise<scalar::log1p_functor>({
      .signature = "log1p(Tensor self) -> Tensor",
      .doc = "log(1 + self), accurate near 0.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() / (g.input(0) + 1)); },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(-0.8, 5); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
