#pragma once

#include "ops/attrs/l1_norm.h"
#include "ops/schema/reduction.h"

namespace facula::scalar {

struct l1_norm_reduction : Reduction {
  static constexpr DTypes dtypes = kFloatingTypes;

  template <class A>
  FACULA_FN A identity() const {
    return 0;
  }
  template <class A, class T>
  FACULA_FN A add(A total, T x) const {
    return total + abs(x);
  }
  template <class A>
  FACULA_FN A combine(A a, A b) const {
    return a + b;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_l1_norm() {
  return reduction<scalar::l1_norm_reduction>({
      .signature = "l1_norm(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor",
      .doc = "Sum of absolute values over the given dimensions (none given: all).  self: [*] "
             "floating -> [*] without dim, or with dim of size 1 (keepdim).",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0);
            g.set(0,
                  sign(self) * expand_reduced(g.grad(), self.sizes(), g.attrs<ReductionAttrs>()));
          },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = reduction_samples,
      .errors = reduction_errors,
  });
}

}  // namespace facula::ops
#endif
