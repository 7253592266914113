#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor unsqueeze(const Tensor& self, std::int64_t dim) {
  check_defined("unsqueeze", self);
  const std::int64_t last = self.dim();
  check<IndexError>(dim >= -last - 1 && dim <= last,
                    "unsqueeze: no dimension can be put at {} of a tensor of size {}; use {} to {}",
                    dim, self.sizes(), -last - 1, last);
  const int place = wrap_dim(dim, self.dim() + 1, "unsqueeze");
  return in_call("unsqueeze", {&self}, [&] {
    Dims sizes(self.sizes());
    sizes.insert(place, 1);
    return reshape_view(self, sizes);
  });
}

namespace ops {

CompositeDef define_unsqueeze() {
  return {
      .signature = "unsqueeze(Tensor self, int dim) -> Tensor",
      .doc =
          "View with a dimension of size 1 inserted at dim; -1 appends it.  self: [*] -> [*, 1, "
          "*].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3}), 0});
            s.add({s.normal({2, 3}), -1});
            s.add({s.normal({}), 0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), 3}, "use -3 to 2");
          },
  };
}

}  // namespace ops
}  // namespace facula
