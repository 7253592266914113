// What add and sub with a factor for their second operand share.
#pragma once

#include <facula/ops.h>

#include "core/promotion.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula::ops {

/// other * alpha, in the dtype of the sum, which may hold more than that of other. Throws
/// DTypeError on behalf of `op` for a fractional alpha between integers.
inline Tensor scaled_operand(const Tensor& self, const Tensor& other, Scalar alpha,
                             const char* op) {
  check_operands({self, other}, op);
  const bool floating = self.is_floating_point() || other.is_floating_point();
  check<DTypeError>(floating || !alpha.is_floating(),
                    "{}: alpha is {}, but {} and {} tensors take an integer; convert one of them "
                    "with to(kFloat32)",
                    op, alpha, name_of(self.dtype()), name_of(other.dtype()));
  const Tensor* operands[] = {&self, &other};
  const DType dtype = promoted_dtype(operands);
  return (other.to(dtype) * alpha).to(dtype);  // a mask times a number is none by itself
}

inline void alpha_samples(Samples& s) {
  s.add({s.normal({3, 4}), s.normal({3, 4}), 0.5});
  s.add({s.normal({3, 4}), s.normal({4}), -2});
  s.add({s.integers({5}, -9, 9), s.integers({5}, -9, 9), 3});
  s.add({s.integers({5}, -9, 9), s.integers({5}, 60, 90).to(kUInt8), -4});
  s.add({s.normal({5}), s.integers({}, 60, 90).to(kUInt8), 5});
}

inline void alpha_errors(ErrorSamples& e) {
  e.fails({e.normal({3}), e.normal({2}), 1}, "broadcast");
  e.fails({e.integers({3}, 0, 5), e.integers({3}, 0, 5), 1.5}, "take an integer");
}

}  // namespace facula::ops
