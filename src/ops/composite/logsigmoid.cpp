#include <facula/ops.h>

#include <limits>

#include "ops/schema/checks.h"
#include "ops/schema/elementwise.h"

namespace facula {

Tensor logsigmoid(const Tensor& self) {
  check_operands({self}, "logsigmoid");
  // Before the sign changes, which unsigned integers do not have.
  const Tensor x = self.is_floating_point() ? self : self.to(get_default_dtype());
  return neg(softplus(neg(x), 1, std::numeric_limits<double>::infinity()));
}

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
