#pragma once

#include "ops/attrs/addcmul.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct addcmul_functor : NumericFunctor, ops::addcmul_attrs {
  template <class T>
  FACULA_FN T operator()(T x, T tensor1, T tensor2) const {
    return static_cast<T>(x + factor<T>() * tensor1 * tensor2);
  }

 private:
  /// Wraps like the product.
  template <class T>
  FACULA_FN T factor() const {
    if constexpr (Integer<T>) return static_cast<T>(static_cast<std::int64_t>(value));
    return K<T>(value);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

/// A factor that no integer type holds, so that integers become floating.
inline bool has_fractional_factor(const void* attrs) {
  const double value = static_cast<const addcmul_attrs*>(attrs)->value;
  return !(value == std::trunc(value) && std::abs(value) < 0x1p63);
}

OpDef define_addcmul() {
  return elementwise<scalar::addcmul_functor>({
      .signature = "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, float value=1) -> Tensor",
      .doc =
          "self + value * tensor1 * tensor2. Integers, which wrap, stay integers if value is "
          "one, else become floating where PyTorch cuts it.  self, tensor1, tensor2: [*] -> [*].",
      .gradient =
          [](GradientContext& g) {
            const double value = g.attrs<ops::addcmul_attrs>().value;
            if (g.needs(0)) g.set(0, g.grad());
            if (g.needs(1)) g.set(1, g.grad() * g.input(2) * value);
            if (g.needs(2)) g.set(2, g.grad() * g.input(1) * value);
          },
      .saves = {input(1).for_grad_of(2), input(2).for_grad_of(1)},
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4}), s.uniform({3, 4}, 0.5, 2), 0.5});
            s.add({s.normal({3, 4}), s.normal({4}), s.uniform({3, 1}, 0.5, 2)});
            s.add({s.integers({5}, 0, 9), s.integers({5}, 0, 9), s.integers({5}, 0, 9), -3});
          },
      .errors = ternary_errors,
      .fractional = has_fractional_factor,
  });
}

}  // namespace facula::ops
#endif
