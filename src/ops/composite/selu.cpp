#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/elementwise.h"
#include "ops/schema/in_call.h"

namespace facula {

Tensor selu(const Tensor& self) {
  check_defined("selu", self);
  return in_call("selu", {&self},
                 [&] { return elu(self, 1.6732632423543772, 1.0507009873554805); });
}

namespace ops {

CompositeDef define_selu() {
  return {
      .signature = "selu(Tensor self) -> Tensor",
      .doc =
          "elu with the self-normalising constants of Klambauer et al. 2017.  self: [*] "
          "floating -> [*].",
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  };
}

}  // namespace ops
}  // namespace facula
