#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/elementwise.h"
#include "ops/schema/in_call.h"

namespace facula {

Tensor mish(const Tensor& self) {
  check_defined("mish", self);
  return in_call("mish", {&self}, [&] { return self * tanh(softplus(self)); });
}

namespace ops {

CompositeDef define_mish() {
  return {
      .signature = "mish(Tensor self) -> Tensor",
      .doc = "self * tanh(softplus(self)).  self: [*] floating -> [*].",
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  };
}

}  // namespace ops
}  // namespace facula
