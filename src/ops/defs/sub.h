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
  OpDef def = elementwise<scalar::sub_functor>({
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
            e.fails({e.normal({2}), e.mask({2})}, "operand 1 of size [2] is bool");
            e.fails({e.mask({2}), e.integers({2}, 0, 5)}, "operand 0 of size [2] is bool");
          },
  });
  def.refuses_masks = true;  // as PyTorch does: 1 - mask is most often meant to be ~mask
  return def;
}

}  // namespace facula::ops
#endif
