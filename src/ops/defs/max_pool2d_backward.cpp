#include "ops/attrs/max_pool2d_backward.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/op_def.h"

namespace facula::ops {

OpDef define_max_pool2d_backward() {
  return {
      .signature = "max_pool2d_backward(Tensor grad, Tensor indices, int[2] size) -> Tensor",
      .doc =
          "Adds each grad [N, C, h, w] to the input position its index names; the input's "
          "height and width are `size`.",
      .infer =
          [](Infer& c) {
            const Dims& size = c.attrs<max_pool2d_backward_attrs>().size;
            const Tensor& grad = c.in(0);
            check<DTypeError>(
                kFloatingTypes.contains(grad.dtype()),
                "max_pool2d_backward: dtype {} is not supported; use float32 or float64",
                name_of(grad.dtype()));
            check<ShapeError>(grad.dim() == 4 && grad.sizes() == c.in(1).sizes(),
                              "max_pool2d_backward: grad of size {} for indices of size {}",
                              grad.sizes(), c.in(1).sizes());
            check<DTypeError>(c.in(1).dtype() == kInt32,
                              "max_pool2d_backward: indices of dtype {}, expected int32",
                              name_of(c.in(1).dtype()));
            c.out(grad.dtype(), {grad.sizes()[0], grad.sizes()[1], size[0], size[1]},
                  channel_format(c.in(1)));
          },
      .gradient =
          [](GradientContext& g) {
            // The transposed map: read where the forward pass added.
            const Tensor indices = g.input(1);
            const Tensor flat = flatten(indices.to(kInt64), 2);
            g.set(0, reshape(gather(flatten(g.grad(), 2), 2, flat), indices.sizes()));
          },
      .saves = {input(1)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 2, 2}), s.integers({2, 3, 2, 2}, 0, 16).to(kInt32), Dims{4, 4}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3, 2, 2}), e.normal({2, 3, 2, 2}), Dims{4, 4}}, "int32");
          },
  };
}

}  // namespace facula::ops
