#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"
#include "ops/schema/shape.h"

namespace facula {

Tensor sum_to_size(const Tensor& self, IntList size) {
  check_defined("sum_to_size", self);
  if (self.sizes() == size) return self;
  check<ShapeError>(broadcast_sizes(size, self.sizes(), "sum_to_size") == Dims(self.sizes()),
                    "sum_to_size: size {} does not broadcast to the tensor's {}", size,
                    self.sizes());
  const int lead = self.dim() - static_cast<int>(size.size());
  Dims summed;
  for (int d = 0; d < self.dim(); ++d) {
    if (d < lead || (size[d - lead] == 1 && self.sizes()[d] != 1)) summed.push_back(d);
  }
  if (summed.empty()) return reshape(self, size);
  return in_call("sum_to_size", {&self}, [&] { return reshape(sum(self, summed, true), size); });
}

namespace ops {

CompositeDef define_sum_to_size() {
  return {
      .signature = "sum_to_size(Tensor self, int[] size) -> Tensor",
      .doc =
          "Sums the dimensions along which a tensor of `size` would broadcast to this one.  self: "
          "[*] -> `size`.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 4}), Dims{3, 1}});
            s.add({s.normal({2, 3}), Dims{}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{4}}, "broadcast");
          },
  };
}

}  // namespace ops
}  // namespace facula
