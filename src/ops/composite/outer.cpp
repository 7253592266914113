#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor outer(const Tensor& self, const Tensor& vec2) {
  check_defined("outer", self, vec2);
  check<ShapeError>(self.dim() == 1 && vec2.dim() == 1,
                    "outer: sizes are {} and {}, expected two vectors", self.sizes(), vec2.sizes());
  return in_call("outer", {&self, &vec2}, [&] {
    return reshape(self, {self.sizes()[0], 1}) * vec2;
  });
}

namespace ops {

CompositeDef define_outer() {
  return {
      .signature = "outer(Tensor self, Tensor vec2) -> Tensor",
      .doc = "Products of all pairs.  self: [M], vec2: [N] -> [M, N].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3}), s.normal({5})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 2}), e.normal({2})}, "expected two vectors");
          },
  };
}

}  // namespace ops
}  // namespace facula
