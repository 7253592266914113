#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"
#include "ops/schema/reshape.h"

namespace facula {

Tensor reshape(const Tensor& self, IntList size) {
  check_defined("reshape", self);
  const Dims sizes = resolve_sizes(size, self.numel(), "reshape");
  if (sizes == Dims(self.sizes())) return self;
  if (view_strides(*self.impl(), sizes)) return reshape_view(self, sizes);
  return reshape_view(self.contiguous(), sizes);
}

namespace ops {

CompositeDef define_reshape() {
  return {
      .signature = "reshape(Tensor self, int[] size) -> Tensor",
      .doc =
          "The elements in row-major order as another shape: a view where possible, else a copy.  "
          "self: [*] -> `size`.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 6}), Dims{3, -1}});
            s.add({s.normal({4, 2}).permute({1, 0}), Dims{8}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{4}}, "has 6 elements");
          },
  };
}

}  // namespace ops
}  // namespace facula
