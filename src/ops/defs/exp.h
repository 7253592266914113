#pragma once

#include "ops/attrs/exp.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct exp_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return exp(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_exp() {
  return elementwise<scalar::exp_functor>({
      .signature = "exp(Tensor self) -> Tensor",
      .doc = "e to the power of self.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() * g.output(0)); },
      .saves = {output(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
