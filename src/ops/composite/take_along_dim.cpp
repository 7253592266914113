#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/indexing.h"
#include "ops/schema/op_def.h"
#include "ops/schema/shape.h"

namespace facula {

Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<std::int64_t> dim) {
  check_defined("take_along_dim", self, indices);
  check_index(indices, "take_along_dim");
  return in_call("take_along_dim", {&self, &indices}, [&] {
    if (!dim) return gather(flatten(self), 0, flatten(indices));
    check<ShapeError>(self.dim() == indices.dim(),
                      "take_along_dim: sizes {} and {} must have equally many dimensions",
                      self.sizes(), indices.sizes());
    const int place = wrap_dim(*dim, self.dim(), "take_along_dim");
    Dims own(self.sizes()), wanted(indices.sizes());
    if (self.dim() > 0) own[place] = wanted[place] = 1;
    Dims common = broadcast_sizes(own, wanted, "take_along_dim");
    own = common;
    if (self.dim() > 0) {
      own[place] = self.sizes()[place];
      common[place] = indices.sizes()[place];
    }
    return gather(expand(self, own), place, expand(indices, common));
  });
}

namespace ops {

CompositeDef define_take_along_dim() {
  return {
      .signature = "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
      .doc =
          "gather with self and indices broadcast against each other except in dim; without dim, "
          "elements of the flattened tensor.  self: [*], indices: [*] int64 or int32 -> [*] with "
          "indices' size in dim (without dim: [N] for N indices).",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.integers({3, 2}, 0, 4), 1});
            s.add({s.normal({3, 4}), s.integers({1, 4}, 0, 3), 0});
            s.add({s.normal({3, 4}), s.integers({5}, 0, 12)});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3, 4}), e.integers({3}, 0, 3), 0}, "equally many dimensions");
            e.fails({e.normal({3, 4}), e.integers({2, 2}, 0, 3), 1}, "broadcast");
            e.fails({e.normal({3, 4}), e.normal({3, 2}), 1}, "take_along_dim: the index has dtype");
          },
  };
}

}  // namespace ops
}  // namespace facula
