#include <facula/ops.h>

#include <algorithm>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

std::vector<Tensor> chunk(const Tensor& self, std::int64_t chunks, std::int64_t dim) {
  check_defined("chunk", self);
  check<ValueError>(chunks > 0, "chunk: chunks is {}, must be positive", chunks);
  check<ShapeError>(self.dim() > 0, "chunk: a 0-d tensor cannot be divided");
  const std::int64_t size = self.sizes()[wrap_dim(dim, self.dim(), "chunk")];
  return in_call("chunk", {&self}, [&] {
    return split(self, std::max<std::int64_t>(1, size / chunks + (size % chunks != 0)), dim);
  });
}

namespace ops {

CompositeDef define_chunk() {
  return {
      .signature = "chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
      .doc =
          "At most `chunks` views of equal parts of dimension dim, the last one perhaps smaller.  "
          "self: [*] -> list of [*], parts of dim.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 2}), 3});
            s.add({s.normal({2, 6}), 4, 1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({4}), 0}, "must be positive");
            e.fails({e.normal({4}), 2, 1}, "chunk: dimension 1 is out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
