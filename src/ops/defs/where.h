#pragma once

#include "ops/attrs/where.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct where_functor : NumericFunctor {
  static constexpr DTypes dtypes = kComputeTypes;
  static constexpr int mask_inputs = 1;

  template <class M, class T>
  FACULA_FN T operator()(M condition, T a, T b) const {
    return select(condition, a, b);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_where() {
  return elementwise<scalar::where_functor>({
      .signature = "where(Tensor condition, Tensor input, Tensor other) -> Tensor",
      .doc = "input where condition, else other; all three broadcast.  condition: bool [*], input, "
             "other: [*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor condition = g.input(0);
            if (g.needs(1)) g.set(1, where(condition, g.grad(), 0));
            if (g.needs(2)) g.set(2, where(condition, zeros_like(g.grad()), g.grad()));
          },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.mask({3, 4}), s.normal({3, 4}), s.normal({3, 4})});
            s.add({s.mask({4}), s.normal({2, 3, 1}), s.normal({})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), e.normal({2}), e.normal({2})}, "expected bool");
            e.fails({e.mask({2}), e.normal({3}), e.normal({2})}, "broadcast");
          },
      .numbers = fitting_numbers,
  });
}

}  // namespace facula::ops
#endif
