#include <facula/ops.h>

#include <algorithm>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"
#include "ops/schema/shape.h"

namespace facula {

Tensor squeeze(const Tensor& self, IntList dim) {
  check_defined("squeeze", self);
  const Dims dims = normalize_dims(dim, self.dim(), "squeeze");
  Dims sizes;
  for (int d = 0; d < self.dim(); ++d) {
    const bool named = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!named || self.sizes()[d] != 1) sizes.push_back(self.sizes()[d]);
  }
  return sizes.size() == self.dim() ? self : reshape_view(self, sizes);
}

namespace ops {

CompositeDef define_squeeze() {
  return {
      .signature = "squeeze(Tensor self, int[] dim=[]) -> Tensor",
      .doc =
          "View without the given dimensions of size 1 (none given: all of size 1); dimensions of "
          "other sizes stay.  self: [*] -> [*] without these.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({1, 3, 1})});
            s.add({s.normal({1, 3, 1}), Dims{-1}});
            s.add({s.normal({2, 3}), Dims{0}});
            s.add({s.normal({1, 0})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{2}}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
