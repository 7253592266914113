#include "ops/schema/alpha.h"

namespace facula {

Tensor add(const Tensor& self, const Tensor& other, Scalar alpha) {
  return self + ops::scaled_operand(self, other, alpha, "add");
}

namespace ops {

CompositeDef define_add_alpha() {
  return {
      .signature = "add.alpha(Tensor self, Tensor other, Scalar alpha) -> Tensor",
      .doc = "self + alpha * other with broadcasting and type promotion.  self, other: [*] -> [*].",
      .samples = alpha_samples,
      .errors = alpha_errors,
  };
}

}  // namespace ops
}  // namespace facula
