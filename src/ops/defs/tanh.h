#pragma once

#include "ops/attrs/tanh.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct tanh_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return tanh(x);
  }
  template <class F>
  FACULA_FN F near(F x) const {
    return detail::near_tanh(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_tanh() {
  return elementwise<scalar::tanh_functor>({
      .signature = "tanh(Tensor self) -> Tensor",
      .doc = "Hyperbolic tangent.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, tanh_backward(g.take_grad(), g.output(0))); },
      .saves = {output(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
