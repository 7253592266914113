#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor celu(const Tensor& self, double alpha) {
  check_defined("celu", self);
  check<ValueError>(alpha != 0, "celu: alpha is 0");
  return in_call("celu", {&self}, [&] { return elu(self, alpha, 1, 1 / alpha); });
}

namespace ops {

CompositeDef define_celu() {
  return {
      .signature = "celu(Tensor self, float alpha=1) -> Tensor",
      .doc =
          "max(0, self) + min(0, alpha * (exp(self / alpha) - 1)).  self: [*] floating -> "
          "[*].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4})});
            s.add({s.normal({3, 4}), 0.6});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 0.0}, "alpha is 0");
          },
  };
}

}  // namespace ops
}  // namespace facula
