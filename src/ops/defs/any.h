#pragma once

#include "ops/attrs/any.h"
#include "ops/schema/reduction.h"

namespace facula::scalar {

struct any_reduction : Reduction {
  static constexpr bool predicate = true;

  template <class T>
  using Accumulator = Flag<T>;

  template <class A>
  FACULA_FN A identity() const {
    return false;
  }
  template <class A, class T>
  FACULA_FN A add(A total, T x) const {
    return static_cast<A>(total | static_cast<A>(x != K<T>(0)));
  }
  template <class A>
  FACULA_FN A combine(A a, A b) const {
    return static_cast<A>(a | b);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_any() {
  return reduction<scalar::any_reduction>({
      .signature = "any(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor",
      .doc = "True where any element is nonzero (NaN counts), over the given dimensions (none "
             "given: all).  self: [*] -> bool [*] without dim, or with dim of size 1 (keepdim).",
      .gradient = not_differentiable("the result is bool"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            reduction_samples(s);
            s.add({s.mask({3, 70}), Dims{1}});
            s.add({s.mask({70, 3}), Dims{0}, true});
            s.add({s.integers({2, 3}, 0, 2), Dims{0}});
          },
      .errors = reduction_errors,
  });
}

}  // namespace facula::ops
#endif
