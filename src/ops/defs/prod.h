#pragma once

#include "ops/attrs/prod.h"
#include "ops/schema/reduction.h"

namespace facula::scalar {

struct prod_reduction : Reduction {
  static constexpr bool widens_integers = true;

  template <class T>
  using Accumulator = std::conditional_t<Integer<T>, std::int64_t, T>;

  template <class A>
  FACULA_FN A identity() const {
    return 1;
  }
  template <class A, class T>
  FACULA_FN A add(A total, T x) const {
    return total * static_cast<A>(x);
  }
  template <class A>
  FACULA_FN A combine(A a, A b) const {
    return a * b;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_prod() {
  return reduction<scalar::prod_reduction>({
      .signature = "prod(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor",
      .doc = "Product over the given dimensions (none given: all). Integers and bool give int64.  "
             "self: [*] -> [*] without dim, or with dim of size 1 (keepdim).",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0);
            const auto& attrs = g.attrs<ReductionAttrs>();
            const Tensor grad = expand_reduced(g.grad(), self.sizes(), attrs);
            const Tensor zero = self == 0;
            if (self.device().is_cpu() && !any(zero).item<bool>()) {
              return g.set(0, grad * (prod(self, attrs.dim, true) / self));
            }
            // The product of the others: of those that are not 0 by division, times the zeros among
            // them, which are summed because there is one at most where the result, or its own
            // gradient, is not 0. Third derivatives presume that there is no zero.
            const Tensor others = where(zero, 1, self);
            const Tensor product = prod(others, attrs.dim, true) / others;
            const Tensor count = sum(zero, attrs.dim, true);
            const Tensor zeros = sum(where(zero, self, 0), attrs.dim, true);
            const Tensor with_one = where(zero, product, product * zeros);
            const Tensor with_two = where(zero, product * (zeros - self), 0);
            const Tensor slope = where(count == 0, product,
                                       where(count == 1, with_one, where(count == 2, with_two, 0)));
            g.set(0, grad * slope);
          },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples =
          [](Samples& s) {
            s.add({s.uniform({7}, 0.5, 1.5)});
            s.add({s.uniform({3, 4, 5}, 0.5, 1.5), Dims{1}});
            s.add({s.uniform({3, 4, 5}, 0.5, 1.5), Dims{0, -1}, true});
            s.add({s.integers({3, 5}, -3, 4), Dims{1}});
            s.add({tensor({0, 2, 3, 0, 5, 0, 1, 2, 4}, {3, 3}, kFloat32), Dims{1}});
          },
      .errors = reduction_errors,
  });
}

}  // namespace facula::ops
#endif
