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

/// Bounds that no integer type holds, so that integers become floating, as in PyTorch.
inline bool has_fractional_bounds(const void* attrs) {
  const auto& a = *static_cast<const clamp_attrs*>(attrs);
  auto fractional = [](std::optional<double> bound) {
    return bound && !(std::isfinite(*bound) && *bound == std::trunc(*bound));
  };
  return fractional(a.min) || fractional(a.max);
}

OpDef define_clamp() {
  return elementwise<scalar::clamp_functor>({
      .signature = "clamp(Tensor self, float? min=None, float? max=None) -> Tensor",
      .doc = "self limited to [min, max]; NaN stays. Where min > max the result is max. "
             "Integers stay integers if both bounds are, masks become such, else both become "
             "floating; bounds beyond their range do not bind.  self: [*] -> [*].",
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
            s.add({s.integers({5}, -9, 9), -1, 3});
            s.add({s.integers({5}, -9, 9), 1.5, 3});
          },
      .errors = unary_errors,
      .fractional = has_fractional_bounds,
  });
}

}  // namespace facula::ops
#endif
