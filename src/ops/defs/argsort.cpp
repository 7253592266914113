#include "ops/attrs/argsort.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"

namespace facula::ops {

OpDef define_argsort() {
  return {
      .signature = "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
      .doc =
          "Positions that sort self along dim; equal elements keep their order, NaN counts as "
          "greatest.  self: [*] -> int64 [*].",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            wrap_dim(c.attrs<argsort_attrs>().dim, self.dim(), "argsort");
            check<DTypeError>(kComputeTypes.contains(self.dtype()),
                              "argsort: dtype {} is not supported; convert it with to(kFloat32)",
                              name_of(self.dtype()));
            c.out(kInt64, self.sizes());
          },
      .gradient = not_differentiable("the result is an index"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({9})});
            s.add({s.normal({3, 4, 2}), 1, true});
            s.add({s.normal({})});
            s.add({tensor({2, 1, 2, 1, 2}, {-1}, kInt64), 0, true});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 1}, "out of range");
            e.fails({e.normal({3}).to(kFloat16)}, "not supported");
          },
  };
}

}  // namespace facula::ops
