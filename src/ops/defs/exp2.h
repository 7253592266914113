#pragma once

#include "ops/attrs/exp2.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct exp2_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return exp2(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_exp2() {
  return elementwise<scalar::exp2_functor>({
      .signature = "exp2(Tensor self) -> Tensor",
      .doc = "2 to the power of self.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) { g.set(0, g.take_grad() * g.output(0) * 0.6931471805599453); },
      .saves = {output(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
