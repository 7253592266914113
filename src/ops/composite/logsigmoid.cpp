#include <facula/ops.h>

#include "ops/schema/elementwise.h"

namespace facula {

Tensor logsigmoid(const Tensor& self) { return neg(softplus(neg(self))); }

namespace ops {

CompositeDef define_logsigmoid() {
  return {
      .signature = "logsigmoid(Tensor self) -> Tensor",
      .doc = "log(sigmoid(self)), accurate in both tails.  self: [*] floating -> [*].",
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  };
}

}  // namespace ops
}  // namespace facula
