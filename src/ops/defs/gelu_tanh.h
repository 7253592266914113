#pragma once

#include "ops/attrs/gelu_tanh.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct gelu_tanh_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    const T inner = K<T>(0.7978845608028654) * (x + K<T>(0.044715) * x * x * x);
    return K<T>(0.5) * x * (K<T>(1) + tanh(inner));
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
