#pragma once

#include "ops/attrs/isnan.h"
#include "ops/schema/elementwise.h"

namespace facula::scalar {

struct isnan_functor : PredicateFunctor {
  template <class T>
  FACULA_FN auto operator()(T x) const {
    return isnan(x);
  }
};

}  // namespace facula::scalar

#ifndef FACULA_KERNEL_TU
namespace facula::ops {

OpDef define_isnan() {
  return elementwise<scalar::isnan_functor>({
      .signature = "isnan(Tensor self) -> Tensor",
      .doc = "True where self is NaN.  self: [*] -> bool [*].",
      .gradient = not_differentiable("the result is bool"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .samples =
          [](Samples& s) {
            const double inf = std::numeric_limits<double>::infinity();
            s.add({tensor({1.0, inf, -inf, std::nan(""), 0.0}, {-1}, kFloat32)});
            s.add({s.integers({3}, -5, 5)});
            s.unary();
          },
      .errors = unary_errors,
  });
}

}  // namespace facula::ops
#endif
