#include <facula/ops.h>

#include <tuple>

#include "ops/schema/checks.h"
#include "ops/schema/reduction.h"
#include "ops/schema/shape.h"

namespace facula {

Tensor var(const Tensor& self, IntList dim, std::int64_t correction, bool keepdim) {
  check_operands({self}, "var");
  check<DTypeError>(self.is_floating_point(), "var: not for {}; convert it with to(kFloat32)",
                    name_of(self.dtype()));
  normalize_dims(dim, self.dim(), "var");
  return std::get<0>(var_mean(self, dim, correction, keepdim));
}

namespace ops {

CompositeDef define_var() {
  return {
      .signature = "var(Tensor self, int[] dim=[], int correction=1, bool keepdim=False) -> Tensor",
      .doc =
          "Variance over the given dimensions (none given: all): squared deviations from the mean "
          "over max(0, count - correction); NaN or infinite where that is 0.  self: [*] floating "
          "-> [*] "
          "without dim, or with dim of size 1 (keepdim).",
      .samples =
          [](Samples& s) {
            s.add({s.normal({7})});
            s.add({s.normal({3, 4, 5}), Dims{1}});
            s.add({s.normal({3, 4, 5}), Dims{0, -1}, 0, true});
          },
      .errors =
          [](ErrorSamples& e) {
            reduction_errors(e);
            e.fails({e.normal({2, 3}), Dims{2}}, "var: dimension 2 is out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
