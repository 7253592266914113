#pragma once

#include "ops/attrs/clamp.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct clamp_functor : NumericFunctor, ops::clamp_attrs {
  template <class T>
  FACULA_FN T operator()(T x) const {
    const double inf = std::numeric_limits<double>::infinity();
    const T low = K<T>(min.value_or(-inf)), high = K<T>(max.value_or(inf));
    return scalar::min(scalar::max(x, low), high);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_clamp() {
  return elementwise<scalar::clamp_functor>({
      .signature = "clamp(Tensor self, float? min=None, float? max=None) -> Tensor",
      .doc = "self limited to [min, max]; NaN stays. Where min > max the result is max. "
             "Bounds are converted to the dtype of self.  self: [*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<ops::clamp_attrs>();
            g.set(0, clamp_backward(g.take_grad(), g.input(0), a.min, a.max));
          },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), -0.5, 0.7});
            s.add({s.normal({5}), -0.5});
            s.add({s.normal({5}), NoneType{}, 0.7});
          },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
