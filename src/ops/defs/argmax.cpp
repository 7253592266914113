#include "ops/attrs/argmax.h"

#include <facula/ops.h>

#include "ops/schema/arg_reduction.h"

namespace facula::ops {

OpDef define_argmax() {
  return {
      .signature = "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
      .doc =
          "Position of the greatest element along dim, or in the flattened tensor; the first of "
          "equal ones, the first NaN if there is one.  self: [*] -> int64 [*] without dim (none "
          "given: all), or with dim of size 1 (keepdim).",
      .infer =
          [](Infer& c) {
            const auto& a = c.attrs<argmax_attrs>();
            infer_arg_reduction(c, a.dim, a.keepdim);
          },
      .gradient = not_differentiable("the result is an index"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples = arg_reduction_samples,
      .errors = arg_reduction_errors,
  };
}

}  // namespace facula::ops
