#pragma once

#include "ops/attrs/softplus.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct softplus_functor : FloatingFunctor, ops::softplus_attrs {
  template <class T>
  FACULA_FN T operator()(T x) const {
    const T scaled = x * K<T>(beta);
    const T above = select(scaled > K<T>(0), scaled, K<T>(0));
    const T soft = (above + log1p_exp(-abs(scaled))) * K<T>(1 / beta);
    return select(scaled > K<T>(threshold), x, soft);
  }
  // Common are small numbers with the attributes that everybody uses.
  static constexpr uint32_t rare = __builtin_bit_cast(uint32_t, 20.0f);
  FACULA_FN uint32_t rarity(float x) const {
    return detail::magnitude_rarity(x) | select((beta == 1) & (threshold >= 20), 0u, rare);
  }
  FACULA_FN detail::FloatPair halfway(float x) const { return {exp_or_zero(-abs(x)), x}; }
  FACULA_FN float complete(float power, float x) const {
    return as_float(max(as_int(x), 0)) + detail::log1p_unit(power);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_softplus() {
  return elementwise<scalar::softplus_functor>({
      .signature = "softplus(Tensor self, float beta=1, float threshold=20) -> Tensor",
      .doc = "log(1 + exp(beta * self)) / beta; self itself where beta * self > threshold.  "
             "self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<ops::softplus_attrs>();
            g.set(0, softplus_backward(g.take_grad(), g.input(0), a.beta, a.threshold));
          },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.unary();
            s.add({s.normal({3, 4}), 2.5, 3.0});
          },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
