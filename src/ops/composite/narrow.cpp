#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor narrow(const Tensor& self, std::int64_t dim, std::int64_t start, std::int64_t length) {
  check_defined("narrow", self);
  const int place = wrap_dim(dim, self.dim(), "narrow");
  check<ShapeError>(self.dim() > 0, "narrow: a 0-d tensor has no entries");
  const std::int64_t size = self.sizes()[place];
  const std::int64_t first = start < 0 ? start + size : start;
  check<IndexError>(first >= 0 && first <= size && length >= 0 && length <= size - first,
                    "narrow: entries {} to {} + {} exceed dimension {} of size {}", start, start,
                    length, place, self.sizes());
  return slice(self, place, first, first + length);
}

namespace ops {

CompositeDef define_narrow() {
  return {
      .signature = "narrow(Tensor self, int dim, int start, int length) -> Tensor",
      .doc =
          "View of `length` entries of dimension dim from start on; a negative start counts from "
          "the end.  self: [*] -> [*] with dim of size length.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 2}), 0, 1, 3});
            s.add({s.normal({2, 5}), -1, -2, 2});
            s.add({s.normal({3}), 0, 3, 0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({5}), 0, 3, 3}, "exceed");
            e.fails({e.normal({5}), 0, 1, -1}, "exceed");
          },
  };
}

}  // namespace ops
}  // namespace facula
