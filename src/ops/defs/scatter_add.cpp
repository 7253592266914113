#include "ops/attrs/scatter_add.h"

#include <facula/ops.h>

#include "ops/schema/indexing.h"

namespace facula::ops {

OpDef define_scatter_add() {
  return {
      .signature = "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
      .doc =
          "A copy of self with src[i][j] added to result[index[i][j]][j] for dim 0, and so on, in "
          "the order of i.  self: [*], index: [*] int64 or int32, src: [*] of index's size -> [*] "
          "of self's size.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const Tensor& src = c.in(2);
            check_index_grid(self, c.attrs<scatter_add_attrs>().dim, c.in(1), "scatter_add");
            check<ShapeError>(src.sizes() == c.in(1).sizes(),
                              "scatter_add: src has size {}, index {}; they must be equal",
                              src.sizes(), c.in(1).sizes());
            check<DTypeError>(
                kNumericTypes.contains(self.dtype()) && src.dtype() == self.dtype(),
                "scatter_add: self is {} and src {}; both must be of one numeric dtype",
                name_of(self.dtype()), name_of(src.dtype()));
            c.out(self.dtype(), self.sizes());
          },
      .gradient =
          [](GradientContext& g) {
            if (g.needs(0)) g.set(0, g.grad());
            if (g.needs(2))
              g.set(2, gather(g.grad(), g.attrs<scatter_add_attrs>().dim, g.input(1)));
          },
      .saves = {input(1).for_grad_of(2)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 3}), 0, s.integers({2, 3}, 0, 5), s.normal({2, 3})});
            s.add({s.normal({2, 4}), 1, s.integers({2, 3}, 0, 4), s.normal({2, 3})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 0, e.integers({2}, 0, 3), e.normal({3})}, "must be equal");
            e.fails({e.normal({3}), 0, e.integers({2}, 3, 5), e.normal({2})}, "out of range");
            e.fails({e.normal({3}), 0, e.integers({2}, 0, 3), e.integers({2}, 0, 3)},
                    "must be of one");
          },
  };
}

}  // namespace facula::ops
