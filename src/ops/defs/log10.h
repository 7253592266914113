#pragma once

#include "ops/attrs/log10.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct log10_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return log10(x);
  }
  static constexpr uint32_t rare = detail::kRareLogarithm;
  FACULA_FN uint32_t rarity(float x) const { return detail::log_rarity(x); }
  FACULA_FN float common(float x) const { return common_log10(x); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_log10() {
  return elementwise<scalar::log10_functor>({
      .signature = "log10(Tensor self) -> Tensor",
      .doc = "Logarithm to base 10.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) { g.set(0, g.take_grad() / (g.input(0) * 2.302585092994046)); },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(0.1, 5); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
