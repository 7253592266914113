#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"
#include "ops/schema/view.h"

namespace facula {

std::vector<Tensor> chunk(const Tensor& self, std::int64_t chunks, std::int64_t dim) {
  check_defined("chunk", self);
  check<ValueError>(chunks > 0, "chunk: chunks is {}, must be positive", chunks);
  check<ShapeError>(self.dim() > 0, "chunk: a 0-d tensor cannot be divided");
  const std::int64_t size = self.sizes()[wrap_dim(dim, self.dim(), "chunk")];
  if (size > 0) {
    return in_call("chunk", {&self},
                   [&] { return split(self, size / chunks + (size % chunks != 0), dim); });
  }
  check<ValueError>(chunks <= kMostViews, "chunk: {} empty chunks, at most {} are possible", chunks,
                    kMostViews);
  return split_with_sizes(self, std::vector<std::int64_t>(static_cast<std::size_t>(chunks)), dim);
}

namespace ops {

CompositeDef define_chunk() {
  return {
      .signature = "chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
      .doc =
          "At most `chunks` views of equal parts of dimension dim, the last one perhaps smaller; "
          "`chunks` empty ones of a dimension of size 0.  self: [*] -> list of [*], parts of dim.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 2}), 3});
            s.add({s.normal({2, 6}), 4, 1});
            s.add({s.normal({0, 2}), 3});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({4}), 0}, "must be positive");
            e.fails({e.normal({4}), 2, 1}, "chunk: dimension 1 is out of range");
            e.fails({e.normal({0}), 65536}, "at most 65535");
          },
  };
}

}  // namespace ops
}  // namespace facula
