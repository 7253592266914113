#pragma once

#include "ops/attrs/log.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct log_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return log(x);
  }
  static constexpr uint32_t rare = detail::kRareLogarithm;
  FACULA_FN uint32_t rarity(float x) const { return detail::log_rarity(x); }
  FACULA_FN float common(float x) const { return common_log(x); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_log() {
  return elementwise<scalar::log_functor>({
      .signature = "log(Tensor self) -> Tensor",
      .doc = "Natural logarithm; -inf at 0, NaN below.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() / g.input(0)); },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(0.1, 5); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
