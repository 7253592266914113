#include "ops/attrs/scatter.h"

#include <facula/ops.h>

#include "ops/schema/indexing.h"

namespace facula::ops {

OpDef define_scatter() {
  return {
      .signature = "scatter(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
      .doc =
          "A copy of self with result[index[i][j]][j] = src[i][j] for dim 0, and so on; of several "
          "values for one place the last stays.  self: [*], index: [*] int64 or int32, src: [*] of "
          "index's size -> [*] of self's size.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const Tensor& src = c.in(2);
            check_index_grid(self, c.attrs<scatter_attrs>().dim, c.in(1), "scatter");
            check<ShapeError>(
                src.sizes() == c.in(1).sizes(),
                "scatter: src has size {}, index {}; they must be equal: narrow the larger",
                src.sizes(), c.in(1).sizes());
            check<DTypeError>(src.dtype() == self.dtype(),
                              "scatter: self is {} and src {}; both must be of one dtype",
                              name_of(self.dtype()), name_of(src.dtype()));
            c.out(self.dtype(), self.sizes());
          },
      .gradient =
          [](GradientContext& g) {
            const std::int64_t dim = g.attrs<scatter_attrs>().dim;
            const Tensor index = g.input(1);
            if (g.needs(0))
              g.set(0, scatter(g.grad(), dim, index, zeros(index.sizes(), g.grad().options())));
            if (g.needs(2)) g.set(2, gather(g.grad(), dim, index));
          },
      .saves = {input(1)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 3}), 0, tensor({0, 4, 2, 3, 1, 0}, {2, 3}, kInt64),
                   s.normal({2, 3})});
            s.add({s.normal({2, 4}), -1, tensor({3, 0, 2, 1, 2, 0}, {2, 3}, kInt64),
                   s.normal({2, 3})});
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
