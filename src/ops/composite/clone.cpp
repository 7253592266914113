#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor clone(const Tensor& self) {
  check_defined("clone", self);
  return to_copy(self);
}

namespace ops {

CompositeDef define_clone() {
  return {
      .signature = "clone(Tensor self) -> Tensor",
      .doc = "A copy in the same layout, differentiable.  self: [*] -> [*].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3})});
            s.add({s.normal({3, 2}).permute({1, 0})});
            s.add({s.integers({3}, 0, 5)});
          },
      .errors = [](ErrorSamples& e) { e.fails({Tensor()}, "undefined"); },
  };
}

}  // namespace ops
}  // namespace facula
