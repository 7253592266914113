#pragma once

#include "ops/attrs/hardtanh.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct hardtanh_functor : NumericFunctor, ops::hardtanh_attrs {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return min(max(x, K<T>(min_val)), K<T>(max_val));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_hardtanh() {
  return elementwise<scalar::hardtanh_functor>({
      .signature = "hardtanh(Tensor self, float min_val=-1, float max_val=1) -> Tensor",
      .doc = "self limited to [min_val, max_val]; the gradient at the limits is 0.  self: "
             "[*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<ops::hardtanh_attrs>();
            g.set(0, hardtanh_backward(g.take_grad(), g.output(0), a.min_val, a.max_val));
          },
      .saves = {output(0)},  // is at a limit wherever the input is beyond it
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.unary();
            s.add({s.normal({3, 4}), -0.5, 1.5});
          },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
