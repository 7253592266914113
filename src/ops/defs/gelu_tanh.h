#pragma once

#include "ops/attrs/gelu_tanh.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct gelu_tanh_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    // (1 + tanh(y)) / 2 is sigmoid(2 y), which does not cancel for negative y. It is no zero for
    // the largest of them, which must not become large again.
    const T bounded = select(x < K<T>(-64), K<T>(-64), x);
    return gated(bounded, x * fma(x * x, K<T>(0.07135481627260025), K<T>(1.5957691216057308)));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_gelu_tanh() {
  return elementwise<scalar::gelu_tanh_functor>({
      .signature = "gelu_tanh(Tensor self) -> Tensor",
      .doc = "self * (1 + tanh(sqrt(2 / pi) * (self + 0.044715 self^3))) / 2: gelu with "
             "approximate='tanh' (Hendrycks & Gimpel 2016).  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) { g.set(0, gelu_tanh_backward(g.take_grad(), g.input(0))); },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
