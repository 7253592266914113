#include <facula/ops.h>

#include <algorithm>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor transpose(const Tensor& self, std::int64_t dim0, std::int64_t dim1) {
  check_defined("transpose", self);
  const int rank = self.dim();
  const int first = wrap_dim(dim0, rank, "transpose"), second = wrap_dim(dim1, rank, "transpose");
  if (first == second) return self;
  Dims order;
  for (int d = 0; d < rank; ++d) order.push_back(d);
  std::swap(order[first], order[second]);
  return permute(self, order);
}

namespace ops {

CompositeDef define_transpose() {
  return {
      .signature = "transpose(Tensor self, int dim0, int dim1) -> Tensor",
      .doc = "View with two dimensions swapped.  self: [*, M, *, N, *] -> [*, N, *, M, *].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 4}), 0, -1});
            s.add({s.normal({2, 3}), 1, 1});
            s.add({s.normal({}), 0, -1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), 0, 2}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
