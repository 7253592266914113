#pragma once

#include "ops/attrs/leaky_relu.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct leaky_relu_functor : FloatingFunctor, ops::leaky_relu_attrs {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return select(x > K<T>(0), x, x * K<T>(negative_slope));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_leaky_relu() {
  return elementwise<scalar::leaky_relu_functor>({
      .signature = "leaky_relu(Tensor self, float negative_slope=0.01) -> Tensor",
      .doc = "self where positive, else negative_slope * self.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            g.set(0, leaky_relu_backward(g.take_grad(), g.input(0),
                                         g.attrs<ops::leaky_relu_attrs>().negative_slope));
          },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.unary();
            s.add({s.normal({3, 4}), 0.2});
          },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
