#include <facula/ops.h>

#include "ops/schema/elementwise.h"

namespace facula {

Tensor tanhshrink(const Tensor& self) { return self - tanh(self); }

namespace ops {

CompositeDef define_tanhshrink() {
  return {
      .signature = "tanhshrink(Tensor self) -> Tensor",
      .doc = "self - tanh(self).  self: [*] floating -> [*].",
      .samples = [](Samples& s) { s.unary(); },
      .errors = unary_errors,
  };
}

}  // namespace ops
}  // namespace facula
