#pragma once

#include "ops/attrs/amin.h"
#include "ops/schema/reduction.h"

namespace facula::scalar {

struct amin_reduction : Reduction {
  static constexpr bool has_identity = false;

  template <class A>
  FACULA_FN A identity() const {
    return std::numeric_limits<A>::has_infinity ? infinity<A>() : std::numeric_limits<A>::max();
  }
  template <class A, class T>
  FACULA_FN A add(A total, T x) const {
    return min(x, total);  // to look for NaN in x need not wait for the total
  }
  template <class A, class T>
  FACULA_FN A add_four(A total, T a, T b, T c, T d) const {
    // Not min(), which would look for NaN in each: a comparison of two elements finds it in both.
    A least = select(b < a, b, a);
    least = select(c < least, c, least);
    least = select(d < least, d, least);
    least = select(least < total, least, total);
    return (isunordered(a, b) | isunordered(c, d)) ? quiet_nan<A>() : least;
  }
  template <class A>
  FACULA_FN A combine(A a, A b) const {
    return min(a, b);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_amin() {
  return reduction<scalar::amin_reduction>({
      .signature = "amin(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor",
      .doc = "Least element over the given dimensions (none given: all); NaN if there is one. "
             "Equal elements share the gradient.  self: [*] -> [*] without dim, or with dim of "
             "size 1 (keepdim).",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0);
            const auto& attrs = g.attrs<ReductionAttrs>();
            const Tensor chosen =
                (self == expand_reduced(g.output(0), self.sizes(), attrs)).to(self.dtype());
            const Tensor share = chosen / sum(chosen, attrs.dim, true);
            g.set(0, expand_reduced(g.grad(), self.sizes(), attrs) * share);
          },
      .saves = {input(0), output(0)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            reduction_samples(s);
            s.add({s.integers({3, 70}, -9, 9), Dims{1}});
            s.add({s.mask({3, 4}), Dims{0}});
          },
      .errors =
          [](ErrorSamples& e) {
            reduction_errors(e);
            e.fails({e.normal({2, 0}), Dims{1}}, "no elements to reduce");
          },
  });
}

}  // namespace facula::ops
#endif
