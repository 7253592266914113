#pragma once

#include "ops/attrs/sub.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct sub_functor : NumericFunctor {
  template <class T>
  FACULA_FN auto operator()(T a, T b) const {
    return static_cast<T>(a - b);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_sub() {
  return elementwise<scalar::sub_functor>({
      .signature = "sub(Tensor self, Tensor other) -> Tensor",
      .doc = "self - other with broadcasting and type promotion.  self, other: [*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            if (g.needs(0)) g.set(0, g.grad());
            if (g.needs(1)) g.set(1, neg(g.take_grad()));
          },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.binary(); },
      .errors =
          [](ErrorSamples& e) {
            binary_errors(e);
            e.fails({e.mask({2}), e.mask({2})}, "logical_xor");
          },
  });
}

}  // namespace facula::ops
#endif
