#pragma once

#include "ops/attrs/addcdiv.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct addcdiv_functor : FloatingFunctor, ops::addcdiv_attrs {
  template <class T>
  FACULA_FN T operator()(T x, T tensor1, T tensor2) const {
    return x + K<T>(value) * tensor1 / tensor2;
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_addcdiv() {
  return elementwise<scalar::addcdiv_functor>({
      .signature = "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, float value=1) -> Tensor",
      .doc = "self + value * tensor1 / tensor2.  self, tensor1, tensor2: [*] floating -> "
             "[*].",
      .gradient =
          [](GradientContext& g) {
            const double value = g.attrs<ops::addcdiv_attrs>().value;
            const Tensor tensor2 = g.input(2);
            if (g.needs(0)) g.set(0, g.grad());
            if (g.needs(1)) g.set(1, g.grad() / tensor2 * value);
            if (g.needs(2)) g.set(2, g.grad() * g.input(1) / (tensor2 * tensor2) * -value);
          },
      .saves = {input(1).for_grad_of(2), input(2)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4}), s.uniform({3, 4}, 0.5, 2), 0.5});
            s.add({s.normal({3, 4}), s.normal({4}), s.uniform({3, 1}, 0.5, 2)});
          },
      .errors = ternary_errors,
  });
}

}  // namespace facula::ops
#endif
