#pragma once

#include "ops/attrs/hardtanh_backward.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct hardtanh_backward_functor : FloatingFunctor, ops::hardtanh_backward_attrs {
  template <class T>
  FACULA_FN T operator()(T grad, T self) const {
    return select((self <= K<T>(min_val)) | (self >= K<T>(max_val)), K<T>(0), grad);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_hardtanh_backward() {
  return elementwise<scalar::hardtanh_backward_functor>({
      .signature = "hardtanh_backward(Tensor grad, Tensor self, float min_val, float max_val) -> "
                   "Tensor",
      .doc = "grad where min_val < self < max_val, else 0.  grad, self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<ops::hardtanh_backward_attrs>();
            if (g.needs(0)) g.set(0, hardtanh_backward(g.grad(), g.input(1), a.min_val, a.max_val));
            if (g.needs(1)) g.set(1, zeros_like(g.grad()));
          },
      .saves = {input(1)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4}), -1.0, 0.5});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({4}), -1.0, 1.0}, "broadcast");
          },
  });
}

}  // namespace facula::ops
#endif
