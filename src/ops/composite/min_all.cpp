#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor min(const Tensor& self) {
  check_reduces_all(self, "min");
  return amin(self);
}

namespace ops {

CompositeDef define_min_all() {
  return {
      .signature = "min.all(Tensor self) -> Tensor",
      .doc =
          "The least element, NaN if there is one; equal ones share the gradient.  self: [*] -> "
          "[].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4})});
            s.add({s.normal({})});
            s.add({s.integers({7}, 0, 3)});
            s.add({s.mask({5})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 0})}, "min: a tensor of size [2, 0] has no elements to reduce");
            e.fails({e.normal({2}).to(kFloat16)}, "min: dtype float16 is not supported");
            e.fails({Tensor()}, "undefined");
          },
  };
}

}  // namespace ops
}  // namespace facula
