#include <facula/ops.h>

#include "ops/schema/reduction.h"

namespace facula {

Tensor min(const Tensor& self) { return amin(self); }

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
            e.fails({e.normal({2, 0})}, "no elements to reduce");
          },
  };
}

}  // namespace ops
}  // namespace facula
