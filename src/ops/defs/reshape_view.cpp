#include "ops/attrs/reshape_view.h"

#include "core/tensor_impl.h"
#include "ops/schema/reshape.h"
#include "ops/schema/view.h"

namespace facula::ops {

OpDef define_reshape_view() {
  return view_op({
      .signature = "reshape_view(Tensor self, int[] size) -> Tensor",
      .doc = "View of the same elements in another shape; one size may be -1. Where the strides do "
             "not permit it, use reshape.  self: [*] -> `size`.",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const Dims sizes =
                resolve_sizes(c.attrs<reshape_view_attrs>().size, self.numel(), "reshape_view");
            const std::optional<Dims> strides = view_strides(*self.impl(), sizes);
            check<ShapeError>(
                strides.has_value(),
                "reshape_view: size {} is no view of a tensor of size {} and strides {}; use "
                "reshape",
                sizes, self.sizes(), self.strides());
            c.view(sizes, *strides, self.storage_offset());
          },
      .gradient = [](GradientContext& g) { g.set(0, reshape(g.grad(), g.input(0).sizes())); },
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 6}), Dims{3, -1}});
            s.add({s.normal({2, 3}), Dims{6}});
            s.add({s.normal({}), Dims{1, 1}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{4}}, "has 6 elements");
            e.fails({e.normal({2, 3}), Dims{-1, -1}}, "more than one -1");
          },
  });
}

}  // namespace facula::ops
