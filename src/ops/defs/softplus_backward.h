#pragma once

#include "ops/attrs/softplus_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct softplus_backward_functor : FloatingFunctor, ops::softplus_backward_attrs {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    const T scaled = self * K<T>(beta);
    return grad * select(scaled > K<T>(threshold), K<T>(1), sigmoid(scaled));
  }
  static constexpr uint32_t rare = detail::kRarePower;
  FACULA_FN uint32_t rarity(float, float self) const {
    return detail::magnitude_rarity(self * K<float>(beta));
  }
  FACULA_FN float common(float grad, float self) const {
    const float scaled = self * K<float>(beta);
    return grad * select(scaled > K<float>(threshold), 1.0f, common_sigmoid(scaled));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_softplus_backward() {
  return elementwise<scalar::softplus_backward_functor>({
      .signature = "softplus_backward(Tensor grad, Tensor self, float beta, float threshold) -> "
                   "Tensor",
      .doc = "grad * sigmoid(beta * self), or grad where beta * self > threshold: the gradient of "
             "softplus.  grad, self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<ops::softplus_backward_attrs>();
            const Tensor self = g.input(1);
            if (g.needs(0)) g.set(0, softplus_backward(g.grad(), self, a.beta, a.threshold));
            if (g.needs(1)) {
              const Tensor scaled = self * a.beta;
              const Tensor slope =
                  sigmoid_backward(g.grad() * g.input(0) * a.beta, sigmoid(scaled));
              g.set(1, where(scaled > a.threshold, 0, slope));
            }
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4}), 2.5, 3.0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({4}), 1.0, 20.0}, "broadcast");
          },
  });
}

}  // namespace facula::ops
#endif
