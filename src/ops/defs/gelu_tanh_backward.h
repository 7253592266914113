#pragma once

#include "ops/attrs/gelu_tanh_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct gelu_tanh_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    return grad * slope(self, sigmoid(gate(self)));
  }
  static constexpr uint32_t rare = __builtin_bit_cast(uint32_t, 9.875f);  // its gate is 84.5
  FACULA_FN uint32_t rarity(float, float self) const { return detail::magnitude_rarity(self); }
  FACULA_FN float common(float grad, float self) const {
    return grad * slope(self, common_sigmoid(gate(self)));
  }
  template <class T>
  FACULA_FN static T gate(T self) {
    return self * fma(self * self, K<T>(0.07135481627260025), K<T>(1.5957691216057308));
  }
  template <class T>
  FACULA_FN static T slope(T self, T part) {
    const T rate = fma(self * self, K<T>(0.21406444881780074), K<T>(1.5957691216057308));
    return part + self * (part * (K<T>(1) - part)) * rate;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_gelu_tanh_backward() {
  return elementwise<scalar::gelu_tanh_backward_functor>({
      .signature = "gelu_tanh_backward(Tensor grad, Tensor self) -> Tensor",
      .doc = "The gradient of gelu_tanh from its input.  grad, self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(1);
            if (g.needs(0)) g.set(0, gelu_tanh_backward(g.grad(), self));
            if (g.needs(1)) {
              // With u the argument of tanh: (1 - t^2) (u' + self (u'' / 2 - t u'^2)).
              const Tensor square = self * self;
              const Tensor t = tanh((self + square * self * 0.044715) * 0.7978845608028654);
              const Tensor slope = (square * 0.134145 + 1) * 0.7978845608028654;
              const Tensor curve = self * (self * 0.10703222440890037 - t * slope * slope);
              g.set(1, g.grad() * g.input(0) * (1 - t * t) * (slope + curve));
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
