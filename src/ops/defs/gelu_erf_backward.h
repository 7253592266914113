#pragma once

#include "ops/attrs/gelu_erf_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct gelu_erf_backward_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    return grad * (normal_cdf(self) + self * normal_pdf(self));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_gelu_erf_backward() {
  return elementwise<scalar::gelu_erf_backward_functor>({
      .signature = "gelu_erf_backward(Tensor grad, Tensor self) -> Tensor",
      .doc = "The gradient of gelu_erf: grad * (Phi(self) + self * phi(self)), phi the standard "
             "normal density.  grad, self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(1);
            if (g.needs(0)) g.set(0, gelu_erf_backward(g.grad(), self));
            if (g.needs(1)) {
              const Tensor density = exp(self * self * -0.5) * 0.3989422804014327;
              g.set(1, g.grad() * g.input(0) * density * (2 - self * self));
            }
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
