#pragma once

#include "ops/attrs/sum.h"
#include "ops/schema/reduction.h"

namespace facula::scalar {

struct sum_reduction : Reduction {
  static constexpr bool widens_integers = true;

  template <class T>
  using Accumulator = std::conditional_t<Integer<T>, std::int64_t, T>;

  template <class A>
  FACULA_FN A identity() const {
    return 0;
  }
  template <class A, class T>
  FACULA_FN A add(A total, T x) const {
    return total + static_cast<A>(x);
  }
  template <class A>
  FACULA_FN A combine(A a, A b) const {
    return a + b;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_sum() {
  return reduction<scalar::sum_reduction>({
      .signature = "sum(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor",
      .doc = "Sum over the given dimensions (none given: all). Integers and bool give int64.  "
             "self: [*] -> [*] without dim, or with dim of size 1 (keepdim).",
      .gradient =
          [](GradientContext& g) {
            g.set(0, expand_reduced(g.grad(), g.input(0).sizes(), g.attrs<ReductionAttrs>()));
          },
      .saves = {shape_of(0)},
      .autocast = Autocast::full,
      .samples = reduction_samples,
      .errors = reduction_errors,
  });
}

}  // namespace facula::ops
#endif
