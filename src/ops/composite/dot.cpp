#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor dot(const Tensor& self, const Tensor& other) {
  check_defined("dot", self, other);
  check<ShapeError>(self.dim() == 1 && other.dim() == 1,
                    "dot: sizes are {} and {}, expected two vectors", self.sizes(), other.sizes());
  check<ShapeError>(self.sizes() == other.sizes(),
                    "dot: vectors of size {} and {} must be equally long", self.sizes(),
                    other.sizes());
  return in_call("dot", {&self, &other}, [&] { return matmul(self, other); });
}

namespace ops {

CompositeDef define_dot() {
  return {
      .signature = "dot(Tensor self, Tensor other) -> Tensor",
      .doc = "Scalar product.  self, other: [N] -> [].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({5}), s.normal({5})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 2}), e.normal({2})}, "expected two vectors");
            e.fails({e.normal({2}), e.normal({3})}, "dot: vectors of size [2] and [3]");
          },
  };
}

}  // namespace ops
}  // namespace facula
