#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

std::tuple<Tensor, Tensor> max(const Tensor& self, std::int64_t dim, bool keepdim) {
  check_reduces(self, dim, "max");
  const Tensor places = argmax(self, dim, true);
  const Tensor values = self.dim() == 0 ? clone(self) : gather(self, dim, places);
  if (keepdim) return {values, places};
  return {squeeze(values, dim), squeeze(places, dim)};
}

namespace ops {

CompositeDef define_max() {
  return {
      .signature =
          "max(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
      .doc =
          "The greatest elements along dim and their positions, the first of equal ones; see amax "
          "for several dimensions.  self: [*] -> [*], int64 [*] without dim, or with dim of size 1 "
          "(keepdim).",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4, 5}), 1});
            s.add({s.normal({3, 4}), -1, true});
            s.add({s.normal({}), 0});
            s.add({s.integers({3, 4}, 0, 3), 0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), 2}, "max: dimension 2 is out of range");
            e.fails({e.normal({2, 0}), 1}, "max: dimension 1 of size [2, 0] has no elements");
          },
  };
}

}  // namespace ops
}  // namespace facula
