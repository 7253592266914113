#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor mv(const Tensor& self, const Tensor& vec) {
  check_defined("mv", self, vec);
  check<ShapeError>(self.dim() == 2 && vec.dim() == 1,
                    "mv: sizes are {} and {}, expected a matrix and a vector", self.sizes(),
                    vec.sizes());
  check<ShapeError>(self.sizes()[1] == vec.sizes()[0],
                    "mv: a matrix of size {} and a vector of size {} do not fit; the columns must "
                    "be as many as the vector's entries",
                    self.sizes(), vec.sizes());
  return in_call("mv", {&self, &vec}, [&] { return matmul(self, vec); });
}

namespace ops {

CompositeDef define_mv() {
  return {
      .signature = "mv(Tensor self, Tensor vec) -> Tensor",
      .doc = "Product of a matrix and a vector.  self: [M, N], vec: [N] -> [M].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 5}), s.normal({5})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 2}), e.normal({2, 2})}, "expected a matrix and a vector");
            e.fails({e.normal({2, 3}), e.normal({2})}, "mv: a matrix of size [2, 3]");
          },
  };
}

}  // namespace ops
}  // namespace facula
