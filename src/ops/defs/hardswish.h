#pragma once

#include "ops/attrs/hardswish.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct hardswish_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return x * min(max(x + K<T>(3), K<T>(0)), K<T>(6)) / K<T>(6);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_hardswish() {
  return elementwise<scalar::hardswish_functor>({
      .signature = "hardswish(Tensor self) -> Tensor",
      .doc = "self * min(max(self + 3, 0), 6) / 6.  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) { g.set(0, hardswish_backward(g.take_grad(), g.input(0))); },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(-5, 5); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
