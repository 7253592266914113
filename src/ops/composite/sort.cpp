#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

std::tuple<Tensor, Tensor> sort(const Tensor& self, std::int64_t dim, bool descending) {
  check_operands({self}, "sort");
  wrap_dim(dim, self.dim(), "sort");
  if (self.dim() == 0) return {clone(self), zeros({}, {kInt64, self.device()})};
  const Tensor order = argsort(self, dim, descending);
  return {gather(self, dim, order), order};
}

namespace ops {

CompositeDef define_sort() {
  return {
      .signature =
          "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor "
          "indices)",
      .doc =
          "The elements in order along dim and their positions; equal elements keep their order, "
          "NaN counts as greatest.  self: [*] -> [*], int64 [*].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({9})});
            s.add({s.normal({3, 4, 2}), 1, true});
            s.add({s.normal({})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 1}, "sort: dimension 1 is out of range");
            e.fails({e.normal({}), 1}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
