#include "ops/attrs/gather.h"

#include <facula/ops.h>

#include "ops/schema/indexing.h"

namespace facula::ops {

OpDef define_gather() {
  return {
      .signature = "gather(Tensor self, int dim, Tensor index) -> Tensor",
      .doc =
          "result[i][j][k] = self[index[i][j][k]][j][k] for dim 0, and so on.  self: [*], index: "
          "[*] int64 or int32 -> [*] of index's size.",
      .infer =
          [](Infer& c) {
            check_index_grid(c.in(0), c.attrs<gather_attrs>().dim, c.in(1), "gather");
            c.out(c.in(0).dtype(), c.in(1).sizes());
          },
      .gradient =
          [](GradientContext& g) {
            const std::int64_t dim = g.attrs<gather_attrs>().dim;
            if (Tensor sum = g.take_sum(0); sum.defined()) {
              sum.scatter_add_(dim, g.input(1), g.grad());
              return g.set(0, std::move(sum));
            }
            g.set(0, scatter_add(zeros_to_add_to(g.input(0), g.grad().dtype()), dim, g.input(1),
                                 g.grad()));
          },
      .saves = {shape_of(0), input(1)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 3}), 0, s.integers({2, 3}, 0, 5)});
            s.add({s.normal({2, 4, 3}), -1, s.integers({2, 3, 5}, 0, 3)});
            s.add({s.normal({2, 4, 3}), 1, s.integers({1, 6, 2}, 0, 4)});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 0, e.normal({2})}, "expected int64");
            e.fails({e.normal({3, 2}), 0, e.integers({2}, 0, 3)}, "equally many dimensions");
            e.fails({e.normal({3, 2}), 0, e.integers({2, 3}, 0, 3)}, "exceeds");
            e.fails({e.normal({3}), 0, e.integers({2}, 3, 5)}, "out of range");
          },
  };
}

}  // namespace facula::ops
