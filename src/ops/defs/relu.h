#pragma once

#include "ops/attrs/relu.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct relu_functor : NumericFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return max(x, K<T>(0));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_relu() {
  return elementwise<scalar::relu_functor>({
      .signature = "relu(Tensor self) -> Tensor",
      .doc = "max(self, 0).  self: [*] -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, relu_backward(g.take_grad(), g.output(0))); },
      .saves = {output(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
