#include "ops/attrs/diagonal_backward.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"
#include "ops/schema/region.h"

namespace facula::ops {

OpDef define_diagonal_backward() {
  return {
      .signature =
          "diagonal_backward(Tensor grad, int[] input_sizes, int offset, int dim1, "
          "int dim2) -> Tensor",
      .doc =
          "Zeros of input_sizes with grad on a diagonal: the gradient of diagonal.  grad: [*, "
          "length] -> `input_sizes`.",
      .infer =
          [](Infer& c) {
            const auto& a = c.attrs<diagonal_backward_attrs>();
            checked_numel(a.input_sizes, c.op_name());
            const Region region = diagonal_region(
                a.input_sizes, dense_strides(a.input_sizes, kContiguous), a.offset, a.dim1, a.dim2);
            check<ShapeError>(c.in(0).sizes() == region.sizes,
                              "diagonal_backward: the gradient has size {}, the diagonal {}",
                              c.in(0).sizes(), region.sizes);
            c.out(c.in(0).dtype(), a.input_sizes);
          },
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<diagonal_backward_attrs>();
            g.set(0, diagonal(g.grad(), a.offset, a.dim1, a.dim2));
          },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3}), Dims{3, 4}, 1, 0, 1});
            s.add({s.normal({2, 3}), Dims{4, 2, 3}, -1, 0, 2});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), Dims{3, 3}, 0, 0, 1}, "the diagonal [3]");
          },
  };
}

}  // namespace facula::ops
