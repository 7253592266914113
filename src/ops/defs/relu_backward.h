#pragma once

#include "ops/attrs/relu_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct relu_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T grad, T output) const {
    return select(output <= K<T>(0), K<T>(0), grad);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_relu_backward() {
  return elementwise<scalar::relu_backward_functor>({
      .signature = "relu_backward(Tensor grad, Tensor output) -> Tensor",
      .doc = "grad where output > 0, else 0: the gradient of relu from its output. NaN counts as "
             "positive.  grad, output: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            if (g.needs(0)) g.set(0, relu_backward(g.grad(), g.input(1)));
            if (g.needs(1)) g.set(1, zeros_like(g.grad()));
          },
      .saves = {input(1)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
