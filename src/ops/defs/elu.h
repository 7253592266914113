#pragma once

#include "ops/attrs/elu.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct elu_functor : FloatingFunctor, ops::elu_attrs {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return select(x >= K<T>(0), x * K<T>(scale),
                  expm1(x * K<T>(input_scale)) * K<T>(alpha * scale));
  }
  // Common are negative numbers that are not large, and all positive ones, unless they are scaled.
  static constexpr uint32_t rare = 0x80000000u | detail::kRarePower;
  FACULA_FN uint32_t rarity(float x) const {
    return as_bits(x) | select((scale == 1) & (input_scale == 1), 0u, rare);
  }
  FACULA_FN float common(float x) const {
    return select(x >= 0.0f, x, common_expm1(x) * K<float>(alpha));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_elu() {
  return elementwise<scalar::elu_functor>({
      .signature = "elu(Tensor self, float alpha=1, float scale=1, float input_scale=1) -> Tensor",
      .doc = "scale * self where positive, else scale * alpha * (exp(input_scale * self) - "
             "1).  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<ops::elu_attrs>();
            g.set(0, elu_backward(g.take_grad(), g.input(0), a.alpha, a.scale, a.input_scale));
          },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.unary();
            s.add({s.normal({3, 4}), 1.5, 1.1, 0.7});
          },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
