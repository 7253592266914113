#pragma once

#include "ops/attrs/l2_norm.h"
#include "ops/schema/reduction.h"

namespace facula::scalar {

struct l2_norm_reduction : Reduction {
  static constexpr DTypes dtypes = kFloatingTypes;

  template <class A>
  FACULA_FN A identity() const {
    return 0;
  }
  template <class A, class T>
  FACULA_FN A add(A total, T x) const {
    return total + x * x;
  }
  template <class A>
  FACULA_FN A combine(A a, A b) const {
    return a + b;
  }
  template <class T, class A>
  FACULA_FN T finish(A total, double) const {
    return sqrt(total);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_l2_norm() {
  return reduction<scalar::l2_norm_reduction>({
      .signature = "l2_norm(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor",
      .doc = "Square root of the sum of squares over the given dimensions (none given: all); the "
             "gradient at 0 is 0.  self: [*] floating -> [*] without dim, or with dim of size 1 "
             "(keepdim).",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0), output = g.output(0);
            // Nothing infinite, whose derivative would be NaN even where it is left out.
            const Tensor zero = output == 0;
            const Tensor scaled = where(zero, 0, g.grad() / where(zero, 1, output));
            g.set(0, expand_reduced(scaled, self.sizes(), g.attrs<ReductionAttrs>()) * self);
          },
      .saves = {input(0), output(0)},
      .autocast = Autocast::full,
      .samples = reduction_samples,
      .errors = reduction_errors,
  });
}

}  // namespace facula::ops
#endif
