#pragma once

#include "ops/attrs/mean.h"
#include "ops/schema/reduction.h"

namespace facula::scalar {

struct mean_reduction : Reduction {
  static constexpr DTypes dtypes = kFloatingTypes;

  template <class A>
  FACULA_FN A identity() const {
    return 0;
  }
  template <class A, class T>
  FACULA_FN A add(A total, T x) const {
    return total + x;
  }
  template <class A>
  FACULA_FN A combine(A a, A b) const {
    return a + b;
  }
  template <class T, class A>
  FACULA_FN T finish(A total, double count) const {
    return total / K<A>(count);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_mean() {
  return reduction<scalar::mean_reduction>({
      .signature = "mean(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor",
      .doc = "Mean over the given dimensions (none given: all); NaN over no elements.  self: [*] "
             "floating -> [*] without dim, or with dim of size 1 (keepdim).",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0);
            const auto count =
                static_cast<double>(self.numel()) / static_cast<double>(g.grad().numel());
            g.set(0, expand_reduced(g.grad() / count, self.sizes(), g.attrs<ReductionAttrs>()));
          },
      .saves = {shape_of(0)},
      .autocast = Autocast::full,
      .samples = reduction_samples,
      .errors =
          [](ErrorSamples& e) {
            reduction_errors(e);
            e.fails({e.integers({3}, 0, 5)}, "not supported");
          },
  });
}

}  // namespace facula::ops
#endif
