#pragma once

#include "ops/attrs/log.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct log_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T x) const {
    return log(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_log() {
  return elementwise<scalar::log_functor>({
      .signature = "log(Tensor self) -> Tensor",
      .doc = "Natural logarithm; -inf at 0, NaN below.  self: [*] floating -> [*].",
      .gradient = [](GradientContext& g) { g.set(0, g.take_grad() / g.input(0)); },
      .saves = {input(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.unary(0.1, 5); },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
