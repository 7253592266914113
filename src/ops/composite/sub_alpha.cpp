#include "base/check.h"
#include "ops/schema/alpha.h"

namespace facula {

Tensor sub(const Tensor& self, const Tensor& other, Scalar alpha) {
  // Scaled, it would no longer be one.
  check<DTypeError>(!other.defined() || other.dtype() != kBool,
                    "sub: operand 1 of size {} is bool; combine masks with &, |, ^ (logical_xor) "
                    "and ~ (logical_not), or convert them with to(kFloat32)",
                    other.defined() ? other.sizes() : IntList());
  return self - ops::scaled_operand(self, other, alpha, "sub");
}

namespace ops {

CompositeDef define_sub_alpha() {
  return {
      .signature = "sub.alpha(Tensor self, Tensor other, Scalar alpha) -> Tensor",
      .doc = "self - alpha * other with broadcasting and type promotion.  self, other: [*] -> [*].",
      .samples = alpha_samples,
      .errors =
          [](ErrorSamples& e) {
            alpha_errors(e);
            e.fails({e.normal({2}), e.mask({2}), 2}, "operand 1 of size [2] is bool");
            e.fails({e.mask({2}), e.normal({2}), 2}, "operand 0 of size [2] is bool");
          },
  };
}

}  // namespace ops
}  // namespace facula
