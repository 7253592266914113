#pragma once

#include "ops/attrs/tanh_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct tanh_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T grad, T output) const {
    return grad * (K<T>(1) - output * output);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_tanh_backward() {
  return elementwise<scalar::tanh_backward_functor>({
      .signature = "tanh_backward(Tensor grad, Tensor output) -> Tensor",
      .doc = "grad * (1 - output^2): the gradient of tanh from its output.  grad, output: [*] "
             "floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor output = g.input(1);
            if (g.needs(0)) g.set(0, tanh_backward(g.grad(), output));
            if (g.needs(1)) g.set(1, g.grad() * g.input(0) * output * -2);
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(-0.9, 0.9); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
