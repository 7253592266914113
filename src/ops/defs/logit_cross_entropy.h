#pragma once

#include "ops/attrs/logit_cross_entropy.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct logit_cross_entropy_functor : FloatingFunctor {
  template <class T>
  FACULA_FN T operator()(T self, T target) const {
    // -(p log s(x) + (1 - p) log(1 - s(x))) in a form that neither overflows nor cancels.
    return scalar::max(self, K<T>(0)) - self * target + log1p_exp(-abs(self));
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_logit_cross_entropy() {
  return elementwise<scalar::logit_cross_entropy_functor>({
      .signature = "logit_cross_entropy(Tensor self, Tensor target) -> Tensor",
      .doc = "Binary cross-entropy of the logit self against the probability target, in nats.  "
             "self, target: [*] floating -> [*].",
      .gradient =
          [](GradientContext& g) {
            const Tensor self = g.input(0);
            if (g.needs(0)) g.set(0, logit_cross_entropy_backward(self, g.input(1), g.grad()));
            if (g.needs(1)) g.set(1, neg(self * g.grad()));
          },
      .saves = {input(0), input(1).for_grad_of(0)},
      .autocast = Autocast::full,
      .samples = [](Samples& s) { s.binary(0, 1); },
      .errors = binary_errors,
  });
}

}  // namespace facula::ops
#endif
