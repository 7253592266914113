#include "ops/attrs/cumsum.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"

namespace facula::ops {

OpDef define_cumsum() {
  return {
      .signature = "cumsum(Tensor self, int dim) -> Tensor",
      .doc =
          "Running sums along dim. Integers and bool give int64; floating sums are kept in double "
          "precision.  self: [*] -> [*].",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            wrap_dim(c.attrs<cumsum_attrs>().dim, self.dim(), "cumsum");
            check<DTypeError>(kComputeTypes.contains(self.dtype()),
                              "cumsum: dtype {} is not supported; convert it with to(kFloat32)",
                              name_of(self.dtype()));
            c.out(self.is_floating_point() ? self.dtype() : kInt64, self.sizes());
          },
      .gradient =
          [](GradientContext& g) {
            const std::int64_t dim = g.attrs<cumsum_attrs>().dim;
            g.set(0, flip(cumsum(flip(g.grad(), dim), dim), dim));
          },
      .saves = kSavesNothing,
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({7}), 0});
            s.add({s.normal({3, 4, 5}), 1});
            s.add({s.normal({3, 4}), -1});
            s.add({s.normal({}), 0});
            s.add({s.integers({6}, -5, 5), 0});
            s.add({s.mask({3, 4}), 0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 1}, "out of range");
            e.fails({e.normal({3}).to(kFloat16), 0}, "not supported");
          },
  };
}

}  // namespace facula::ops
