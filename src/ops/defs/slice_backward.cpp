#include "ops/attrs/slice_backward.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"
#include "ops/schema/region.h"

namespace facula::ops {

OpDef define_slice_backward() {
  return {
      .signature =
          "slice_backward(Tensor grad, int[] input_sizes, int dim, int? start, int? end, "
          "int step) -> Tensor",
      .doc =
          "Zeros of input_sizes with grad in the part that slice takes: the gradient of slice.  "
          "grad: [*] -> `input_sizes`.",
      .infer =
          [](Infer& c) {
            const auto& a = c.attrs<slice_backward_attrs>();
            checked_numel(a.input_sizes, c.op_name());
            const Region region =
                slice_region(a.input_sizes, dense_strides(a.input_sizes, kContiguous), a.dim,
                             a.start, a.end, a.step);
            check<ShapeError>(c.in(0).sizes() == region.sizes,
                              "slice_backward: the gradient has size {}, the slice {}",
                              c.in(0).sizes(), region.sizes);
            c.out(c.in(0).dtype(), a.input_sizes);
          },
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<slice_backward_attrs>();
            g.set(0, slice(g.grad(), a.dim, a.start, a.end, a.step));
          },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 3}), Dims{5, 3}, 0, 1, 4, 1});
            s.add({s.normal({4, 2}), Dims{4, 6}, 1, -5, -1, 2});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{5, 3}, 0, 1, 4, 1}, "the slice [3, 3]");
          },
  };
}

}  // namespace facula::ops
