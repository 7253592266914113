#pragma once

#include "ops/attrs/elu_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct elu_backward_functor : FloatingFunctor, ops::elu_backward_attrs {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    return grad * slope(self, exp(self * K<T>(input_scale)));
  }
  // Common are negative powers that are not large, and all positive ones.
  static constexpr uint32_t rare = 0x80000000u | detail::kRarePower;
  FACULA_FN uint32_t rarity(float, float self) const {
    return as_bits(self * K<float>(input_scale)) | select(input_scale > 0, 0u, rare);
  }
  FACULA_FN float common(float grad, float self) const {
    return grad * slope(self, common_exp(self * K<float>(input_scale)));
  }
  template <class T>
  FACULA_FN T slope(T self, T power) const {
    return select(self > K<T>(0), K<T>(scale), K<T>(alpha * scale * input_scale) * power);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_elu_backward() {
  return elementwise<scalar::elu_backward_functor>({
      .signature = "elu_backward(Tensor grad, Tensor self, float alpha, float scale, float "
                   "input_scale) -> Tensor",
      .doc = "The gradient of elu from its input.  grad, self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<ops::elu_backward_attrs>();
            const Tensor self = g.input(1);
            if (g.needs(0)) g.set(0, elu_backward(g.grad(), self, a.alpha, a.scale, a.input_scale));
            if (g.needs(1)) {
              const Tensor slope =
                  elu_backward(g.grad() * g.input(0), self, a.alpha, a.scale, a.input_scale);
              g.set(1, where(self > 0, 0, slope * a.input_scale));
            }
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4}), 1.5, 1.1, 0.7});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({4}), 1.0, 1.0, 1.0}, "broadcast");
          },
  });
}

}  // namespace facula::ops
#endif
