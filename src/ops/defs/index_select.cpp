#include "ops/attrs/index_select.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/indexing.h"

namespace facula::ops {

OpDef define_index_select() {
  return {
      .signature = "index_select(Tensor self, int dim, Tensor index) -> Tensor",
      .doc =
          "The entries of dimension dim that index names, in its order.  self: [*], index: [K] "
          "int64 or int32 -> [*] with dim of size K.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const Tensor& index = c.in(1);
            check_index_list(index, "index_select");
            Dims sizes(self.sizes());
            const int dim = wrap_dim(c.attrs<index_select_attrs>().dim, self.dim(), "index_select");
            check<ShapeError>(self.dim() > 0 || index.numel() == 1,
                              "index_select: a 0-d tensor takes an index of one entry, got {}",
                              index.numel());
            if (self.dim() > 0) sizes[dim] = index.numel();
            c.out(self.dtype(), sizes, self.suggest_memory_format());
          },
      .gradient =
          [](GradientContext& g) {
            const std::int64_t dim = g.attrs<index_select_attrs>().dim;
            if (Tensor sum = g.take_sum(0); sum.defined()) {
              sum.index_add_(dim, g.input(1), g.grad());
              return g.set(0, std::move(sum));
            }
            g.set(0, index_add(zeros_to_add_to(g.input(0), g.grad().dtype()), dim, g.input(1),
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
            s.add({s.normal({5, 3}), 0, s.integers({4}, 0, 5)});
            s.add({s.normal({2, 4, 3}), -2, s.integers({6}, 0, 4)});
            s.add({s.normal({2, 4}), 1, s.integers({3}, 0, 4)});
            s.add({s.normal({2, 9, 3, 4}), 3, s.integers({5}, 0, 4)});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 0, e.normal({2})}, "expected int64");
            e.fails({e.normal({3}), 0, e.integers({2, 2}, 0, 3)}, "expected one dimension");
            e.fails({e.normal({3}), 0, e.integers({2}, 3, 5)}, "out of range");
            e.fails({e.normal({0, 3}), 1, e.integers({2}, 3, 5)}, "out of range");
            e.fails({e.normal({3}), 1, e.integers({2}, 0, 3)}, "out of range");
          },
  };
}

}  // namespace facula::ops
