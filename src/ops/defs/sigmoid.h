#pragma once

#include "ops/attrs/sigmoid.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct sigmoid_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return sigmoid(x);
  }
  static constexpr uint32_t rare = detail::kRarePower;
  FACULA_FN uint32_t rarity(float x) const { return detail::magnitude_rarity(x); }
  FACULA_FN float common(float x) const { return common_sigmoid(x); }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_sigmoid() {
  return elementwise<scalar::sigmoid_functor>({
      .signature = "sigmoid(Tensor self) -> Tensor",
      .doc = "1 / (1 + exp(-self)), accurate in both tails.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) { g.set(0, sigmoid_backward(g.take_grad(), g.output(0))); },
      .saves = {output(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
