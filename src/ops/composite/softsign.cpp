#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/elementwise.h"
#include "ops/schema/in_call.h"

namespace facula {

Tensor softsign(const Tensor& self) {
  check_defined("softsign", self);
  return in_call("softsign", {&self}, [&] { return self / (abs(self) + 1); });
}

namespace ops {

CompositeDef define_softsign() {
  return {
      .signature = "softsign(Tensor self) -> Tensor",
      .doc = "self / (1 + |self|).  self: [*] floating -> [*].",
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  };
}

}  // namespace ops
}  // namespace facula
