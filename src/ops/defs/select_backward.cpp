#include "ops/attrs/select_backward.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"
#include "ops/schema/region.h"

namespace facula::ops {

OpDef define_select_backward() {
  return {
      .signature = "select_backward(Tensor grad, int[] input_sizes, int dim, int index) -> Tensor",
      .doc =
          "Zeros of input_sizes with grad as entry index of dimension dim: the gradient of select. "
          " grad: [*] without dim -> `input_sizes`.",
      .infer =
          [](Infer& c) {
            const auto& a = c.attrs<select_backward_attrs>();
            checked_numel(a.input_sizes, c.op_name());
            const Region region = select_region(
                a.input_sizes, dense_strides(a.input_sizes, kContiguous), a.dim, a.index);
            check<ShapeError>(c.in(0).sizes() == region.sizes,
                              "select_backward: the gradient has size {}, the entry {}",
                              c.in(0).sizes(), region.sizes);
            c.out(c.in(0).dtype(), a.input_sizes);
          },
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<select_backward_attrs>();
            g.set(0, select(g.grad(), a.dim, a.index));
          },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({}), Dims{5}, 0, 2});
            s.add({s.normal({3, 2}), Dims{3, 4, 2}, 1, -1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), Dims{3, 4}, 0, 1}, "the entry [4]");
            e.fails({e.normal({4}), Dims{3, 4}, 0, 3}, "out of range");
          },
  };
}

}  // namespace facula::ops
