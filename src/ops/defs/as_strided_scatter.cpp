#include "ops/attrs/as_strided_scatter.h"

#include <utility>

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"
#include "ops/schema/region.h"

namespace facula::ops {
namespace {

/// The gradient without what flows into the written elements: the same memory if nobody else knows
/// it, so that n writes into parts of a tensor need not copy all of it n times.
Tensor rest_of(Tensor grad, const as_strided_scatter_attrs& a, bool recorded) {
  const TensorImpl& impl = *grad.impl();
  if (!recorded && is_dead(impl) && grad.is_contiguous()) {
    alias(impl, a.size, a.stride, impl.offset + a.storage_offset).zero_();
    return grad;
  }
  const Tensor nothing = zeros(a.size, {grad.dtype(), grad.device()});
  return as_strided_scatter(grad, nothing, a.size, a.stride, a.storage_offset);
}

}  // namespace

OpDef define_as_strided_scatter() {
  return {
      .signature =
          "as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, "
          "int storage_offset=0) -> Tensor",
      .doc =
          "A copy of self in which src replaces the elements that as_strided_copy takes.  "
          "self: [*], src: `size`, of the same dtype -> [*].",
      .infer =
          [](Infer& c) {
            const auto& a = c.attrs<as_strided_scatter_attrs>();
            const Tensor &self = c.in(0), &src = c.in(1);
            strided_region(a.size, a.stride, a.storage_offset, self.numel(), c.op_name());
            check<ShapeError>(src.sizes() == a.size, "as_strided_scatter: src has size {}, not {}",
                              src.sizes(), a.size);
            check<DTypeError>(src.dtype() == self.dtype(),
                              "as_strided_scatter: src is {}, self {}; convert one with to()",
                              name_of(src.dtype()), name_of(self.dtype()));
            c.out(self.dtype(), self.sizes());
          },
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<as_strided_scatter_attrs>();
            if (g.needs(1)) {
              g.set(1, as_strided_copy(g.grad(), a.size, a.stride, a.storage_offset));
            }
            if (g.needs(0)) g.set(0, rest_of(g.take_grad(), a, g.higher_order()));
          },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({2, 3}), Dims{2, 3}, Dims{4, 1}});
            s.add({s.normal({3, 4}), s.normal({3}), Dims{3}, Dims{5}, 1});
            s.add({s.normal({2, 3, 2}), s.normal({3, 2}), Dims{3, 2}, Dims{2, 6}, 1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), e.normal({2}), Dims{1}, Dims{1}}, "src has size [2]");
            e.fails({e.normal({3}), e.normal({2}), Dims{2}, Dims{2}, 1}, "beyond the 3 elements");
            e.fails({e.normal({3}), e.normal({2}), Dims{2}, Dims{0}}, "more than once");
            e.fails({e.normal({3}), e.integers({2}, 0, 9), Dims{2}, Dims{1}}, "src is int64");
            e.fails({e.normal({3}), e.normal({2}), Dims{2}, Dims{1}, -1}, "negative");
          },
  };
}

}  // namespace facula::ops
