#pragma once

#include "ops/attrs/rsqrt.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct rsqrt_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return rsqrt(x);
  }
  template <class F>
  FACULA_FN F near(F x) const {
    return rsqrt(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_rsqrt() {
  return elementwise<scalar::rsqrt_functor>({
      .signature = "rsqrt(Tensor self) -> Tensor",
      .doc = "1 / sqrt(self).  self: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor output = g.output(0);
            g.set(0, g.take_grad() * output * output * output * -0.5);
          },
      .saves = {output(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(0.3, 4); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
