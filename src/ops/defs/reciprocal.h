#pragma once

#include "ops/attrs/reciprocal.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct reciprocal_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return K<T>(1) / x;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_reciprocal() {
  return elementwise<scalar::reciprocal_functor>({
      .signature = "reciprocal(Tensor self) -> Tensor",
      .doc = "1 / self.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor output = g.output(0);
            g.set(0, neg(g.take_grad() * output * output));
          },
      .saves = {output(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(0.4, 3); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
