#pragma once

#include "ops/attrs/silu_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct silu_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    return grad * slope(self, sigmoid(self));
  }
  static constexpr uint32_t rare = detail::kRarePower;
  FACULA_FN uint32_t rarity(float, float self) const { return detail::magnitude_rarity(self); }
  FACULA_FN float common(float grad, float self) const {
    return grad * slope(self, common_sigmoid(self));
  }
  template <class T>
  FACULA_FN static T slope(T self, T s) {
    return s * (K<T>(1) + self * (K<T>(1) - s));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_silu_backward() {
  return elementwise<scalar::silu_backward_functor>({
      .signature = "silu_backward(Tensor grad, Tensor self) -> Tensor",
      .doc = "The gradient of silu from its input.  grad, self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(1);
            if (g.needs(0)) g.set(0, silu_backward(g.grad(), self));
            if (g.needs(1)) {
              const Tensor s = sigmoid(self);
              g.set(1, g.grad() * g.input(0) * s * (1 - s) * (2 + self * (1 - s * 2)));
            }
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
