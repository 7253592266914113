#include "ops/attrs/index_add.h"

#include <cmath>

#include <facula/ops.h>

#include "core/number_range.h"
#include "core/tensor_impl.h"
#include "ops/schema/indexing.h"

namespace facula::ops {

OpDef define_index_add() {
  return {
      .signature =
          "index_add(Tensor self, int dim, Tensor index, Tensor source, float alpha=1) -> Tensor",
      .doc =
          "A copy of self in which alpha * source[i] is added to entry index[i] of dimension dim, "
          "in the order of i.  self: [*], index: [K] int64 or int32, source: [*] with dim of size "
          "K -> [*].",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const Tensor& index = c.in(1);
            const Tensor& source = c.in(2);
            check_index_list(index, "index_add");
            const int dim = wrap_dim(c.attrs<index_add_attrs>().dim, self.dim(), "index_add");
            Dims sizes(self.sizes());
            if (self.dim() > 0) sizes[dim] = index.numel();
            check<ShapeError>(source.sizes() == sizes, "index_add: source has size {}, expected {}",
                              source.sizes(), sizes);
            check<DTypeError>(
                kNumericTypes.contains(self.dtype()) && source.dtype() == self.dtype(),
                "index_add: self is {} and source {}; both must be of one numeric dtype",
                name_of(self.dtype()), name_of(source.dtype()));
            const double alpha = c.attrs<index_add_attrs>().alpha;
            check<DTypeError>(
                self.is_floating_point() || (alpha == std::trunc(alpha) && fits(alpha, kInt64)),
                "index_add: alpha is {}, but {} tensors take an integer; convert "
                "them with to(kFloat32)",
                alpha, name_of(self.dtype()));
            const bool as_self = self.suggest_memory_format() == kChannelsLast;
            c.out(self.dtype(), self.sizes(), (as_self ? self : source).suggest_memory_format());
          },
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<index_add_attrs>();
            if (g.needs(0)) g.set(0, g.grad());
            if (g.needs(2)) {
              const Tensor gathered = index_select(g.grad(), a.dim, g.input(1));
              g.set(2, a.alpha == 1 ? gathered : gathered * a.alpha);
            }
          },
      .saves = {input(1).for_grad_of(2)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 3}), 0, s.integers({4}, 0, 5), s.normal({4, 3})});
            s.add({s.normal({2, 3, 4}), 1, s.integers({6}, 0, 3), s.normal({2, 6, 4}), 0.5});
            s.add({s.integers({5}, 0, 9), 0, s.integers({4}, 0, 5), s.integers({4}, 0, 9), -2});
            s.add({s.normal({2, 4}), -1, s.integers({3}, 0, 4), s.normal({2, 3})});
            s.add({s.normal({2, 9, 3, 4}), 3, s.integers({5}, 0, 4), s.normal({2, 9, 3, 5})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 0, e.integers({2}, 0, 3), e.normal({3})}, "expected [2]");
            for (const double alpha : {0.5, 1e30, std::nan("")}) {
              e.fails(
                  {e.integers({3}, 0, 9), 0, e.integers({2}, 0, 3), e.integers({2}, 0, 9), alpha},
                  "take an integer");
            }
            e.fails({e.normal({3}), 0, e.integers({2}, 3, 5), e.normal({2})}, "out of range");
            e.fails({e.normal({0, 3}), 1, e.integers({2}, 3, 5), e.normal({0, 2})}, "out of range");
            e.fails({e.normal({3}), 0, e.integers({2}, 0, 3), e.integers({2}, 0, 3)},
                    "numeric dtype");
          },
  };
}

}  // namespace facula::ops
