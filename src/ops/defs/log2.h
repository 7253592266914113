#pragma once

#include "ops/attrs/log2.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct log2_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return log2(x);
  }
  static constexpr uint32_t rare = detail::kRareLogarithm;
  FACULA_FN uint32_t rarity(float x) const { return detail::log_rarity(x); }
  FACULA_FN float common(float x) const { return common_log2(x); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_log2() {
  return elementwise<scalar::log2_functor>({
      .signature = "log2(Tensor self) -> Tensor",
      .doc = "Logarithm to base 2.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) { g.set(0, g.take_grad() / (g.input(0) * 0.6931471805599453)); },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(0.1, 5); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
