#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/reduction.h"
#include "ops/schema/shape.h"
#include "ops/schema/zero_gradient.h"

namespace facula {

Tensor std(const Tensor& self, IntList dim, std::int64_t correction, bool keepdim) {
  check_operands({self}, "std");
  check<DTypeError>(self.is_floating_point(), "std: not for {}; convert it with to(kFloat32)",
                    name_of(self.dtype()));
  normalize_dims(dim, self.dim(), "std");
  return flat_at_zero(var(self, dim, correction, keepdim), 0,
                      [](const Tensor& variance) { return sqrt(variance); });
}

namespace ops {

CompositeDef define_std() {
  return {
      .signature = "std(Tensor self, int[] dim=[], int correction=1, bool keepdim=False) -> Tensor",
      .doc =
          "Square root of var; the gradient at 0 is 0.  self: [*] floating -> [*] without dim, or "
          "with dim of size 1 (keepdim).",
      .samples =
          [](Samples& s) {
            s.add({s.normal({7})});
            s.add({s.normal({3, 4, 5}), Dims{1}});
            s.add({s.normal({3, 4, 5}), Dims{0, -1}, 0, true});
          },
      .errors =
          [](ErrorSamples& e) {
            reduction_errors(e);
            e.fails({e.normal({2, 3}), Dims{2}}, "std: dimension 2 is out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
