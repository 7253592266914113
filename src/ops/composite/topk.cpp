#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

std::tuple<Tensor, Tensor> topk(const Tensor& self, std::int64_t k, std::int64_t dim,
                                bool largest) {
  check_operands({self}, "topk");
  const int place = wrap_dim(dim, self.dim(), "topk");
  check<ValueError>(k >= 0 && k <= (self.dim() == 0 ? 1 : self.sizes()[place]),
                    "topk: k is {}, dimension {} of size {} has fewer entries", k, dim,
                    self.sizes());
  if (self.dim() == 0) return sort(self);
  const Tensor order = argtopk(self, k, dim, largest);
  return {gather(self, dim, order), order};
}

namespace ops {

CompositeDef define_topk() {
  return {
      .signature =
          "topk(Tensor self, int k, int dim=-1, bool largest=True) -> (Tensor values, "
          "Tensor indices)",
      .doc =
          "The k greatest (or least) elements along dim in order, and their positions.  self: [*] "
          "-> [*], int64 [*] with dim of size k.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({9}), 3});
            s.add({s.normal({3, 4, 2}), 2, 1, false});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 4}, "has fewer entries");
            e.fails({e.normal({3}), 1, 1}, "topk: dimension 1 is out of range");
            e.fails({e.normal({}), 1, -2}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
