#pragma once

#include "ops/attrs/clamp_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct clamp_backward_functor : FloatingFunctor, ops::clamp_backward_attrs {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    const double inf = std::numeric_limits<double>::infinity();
    const T low = K<T>(min.value_or(-inf)), high = K<T>(max.value_or(inf));
    return select((self >= low) & (self <= high), grad, K<T>(0));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_clamp_backward() {
  return elementwise<scalar::clamp_backward_functor>({
      .signature = "clamp_backward(Tensor grad, Tensor self, float? min=None, float? max=None) -> "
                   "Tensor",
      .doc = "grad where min <= self <= max, else 0: the gradient of clamp.  grad, self: [*] "
             "floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<ops::clamp_backward_attrs>();
            if (g.needs(0)) g.set(0, clamp_backward(g.grad(), g.input(1), a.min, a.max));
            if (g.needs(1)) g.set(1, zeros_like(g.grad()));
          },
      .saves = {input(1)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4}), -0.5, 0.7});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({4})}, "broadcast");
          },
  });
}

}  // namespace facula::ops
#endif
