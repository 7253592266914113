#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/elementwise.h"
#include "ops/schema/in_call.h"

namespace facula {

Tensor relu6(const Tensor& self) {
  check_defined("relu6", self);
  return in_call("relu6", {&self}, [&] { return hardtanh(self, 0, 6); });
}
Tensor relu6(Tensor&& self) {
  check_defined("relu6", self);
  return in_call("relu6", {&self}, [&] { return hardtanh(std::move(self), 0, 6); });
}

namespace ops {

CompositeDef define_relu6() {
  return {
      .signature = "relu6(Tensor self) -> Tensor",
      .doc = "min(max(self, 0), 6).  self: [*] -> [*].",
      .samples = [](Samples& s) { s.unary(-3, 9); },
      .errors = unary_errors,
  };
}

}  // namespace ops
}  // namespace facula
