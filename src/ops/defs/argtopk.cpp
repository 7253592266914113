#include "ops/attrs/argtopk.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"

namespace facula::ops {

OpDef define_argtopk() {
  return {
      .signature = "argtopk(Tensor self, int k, int dim=-1, bool largest=True) -> Tensor",
      .doc =
          "Positions of the k greatest (or least) elements along dim, in order: the first k of "
          "argsort(self, dim, largest).  self: [*] -> int64 [*] with dim of size k.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const auto& a = c.attrs<argtopk_attrs>();
            const int dim = wrap_dim(a.dim, self.dim(), "argtopk");
            const std::int64_t entries = self.dim() == 0 ? 1 : self.sizes()[dim];
            check<ValueError>(a.k >= 0 && a.k <= entries,
                              "argtopk: k is {}, dimension {} of size {} has fewer entries", a.k,
                              a.dim, self.sizes());
            check<ValueError>(a.k == 1 || self.dim() > 0,
                              "argtopk: k is 0, a tensor without dimensions has one element; pass "
                              "1");
            check<DTypeError>(kComputeTypes.contains(self.dtype()),
                              "argtopk: dtype {} is not supported; convert it with to(kFloat32)",
                              name_of(self.dtype()));
            Dims sizes(self.sizes());
            if (self.dim() > 0) sizes[dim] = a.k;
            c.out(kInt64, sizes);
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
            s.add({s.normal({9}), 3});
            s.add({s.normal({3, 4, 2}), 2, 1, false});
            s.add({s.normal({2, 70}), 3});
            s.add({s.normal({}), 1});
            s.add({tensor({2, 1, 2, 1, 2}, {-1}, kInt64), 4});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), 1, 1}, "out of range");
            e.fails({e.normal({3}), 4}, "has fewer entries");
            e.fails({e.normal({}), 0}, "without dimensions");
            e.fails({e.normal({3}), -1}, "has fewer entries");
            e.fails({e.normal({3}).to(kFloat16), 1}, "not supported");
          },
  };
}

}  // namespace facula::ops
