#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor unsqueeze(const Tensor& self, std::int64_t dim) {
  check_defined("unsqueeze", self);
  const int place = wrap_dim(dim, self.dim() + 1, "unsqueeze");
  Dims sizes(self.sizes());
  sizes.insert(place, 1);
  return reshape_view(self, sizes);
}

namespace ops {

CompositeDef define_unsqueeze() {
  return {
      .signature = "unsqueeze(Tensor self, int dim) -> Tensor",
      .doc = "View with a dimension of size 1 inserted at dim; -1 appends it.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3}), 0});
            s.add({s.normal({2, 3}), -1});
            s.add({s.normal({}), 0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), 3}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
