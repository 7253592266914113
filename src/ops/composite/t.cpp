#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor t(const Tensor& self) {
  check_defined("t", self);
  check<ShapeError>(self.dim() <= 2,
                    "t: a tensor of size {} has more than 2 dimensions; use transpose",
                    self.sizes());
  return self.dim() < 2 ? self : permute(self, {1, 0});
}

namespace ops {

CompositeDef define_t() {
  return {
      .signature = "t(Tensor self) -> Tensor",
      .doc =
          "View of a matrix with rows and columns swapped; tensors of fewer dimensions stay.  "
          "self: [M, N] -> [N, M].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3})});
            s.add({s.normal({3})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3, 4})}, "use transpose");
          },
  };
}

}  // namespace ops
}  // namespace facula
