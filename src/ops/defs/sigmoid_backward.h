#pragma once

#include "ops/attrs/sigmoid_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct sigmoid_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T grad, T output) const {
    return grad * ((K<T>(1) - output) * output);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_sigmoid_backward() {
  return elementwise<scalar::sigmoid_backward_functor>({
      .signature = "sigmoid_backward(Tensor grad, Tensor output) -> Tensor",
      .doc = "grad * output * (1 - output): the gradient of sigmoid from its output.  grad, "
             "output: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor output = g.input(1);
            if (g.needs(0)) g.set(0, sigmoid_backward(g.grad(), output));
            if (g.needs(1)) g.set(1, g.grad() * g.input(0) * (1 - output * 2));
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(0.1, 0.9); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
