#pragma once

#include "ops/attrs/atan.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct atan_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return atan(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_atan() {
  return elementwise<scalar::atan_functor>({
      .signature = "atan(Tensor self) -> Tensor",
      .doc = "Inverse tangent, within (-pi/2, pi/2).  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0);
            g.set(0, g.take_grad() / (self * self + 1));
          },
      .saves = {input(0)},
      .autocast = Autocast::promote,
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
