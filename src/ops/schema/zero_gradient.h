#pragma once

#include <facula/ops.h>

namespace facula {

/// function(x), which is `at_zero` where x is 0 and has the gradient 0 there: that of the formula
/// is infinite and becomes NaN as soon as a zero is multiplied with it.
template <class Function>
Tensor flat_at_zero(const Tensor& x, double at_zero, const Function& function) {
  if (!x.requires_grad()) return function(x);
  const Tensor zero = x == 0;
  return where(zero, at_zero, function(where(zero, 1, x)));
}

}  // namespace facula
