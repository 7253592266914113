#include "ops/attrs/uneven_avg_pool2d_backward.h"

#include <facula/ops.h>

#include "ops/schema/op_def.h"
#include "ops/schema/uneven_pool.h"

namespace facula::ops {

OpDef define_uneven_avg_pool2d_backward() {
  return {
      .signature =
          "uneven_avg_pool2d_backward(Tensor grad, int[2] size, str memory_format='contiguous') "
          "-> Tensor",
      .doc =
          "Spreads each grad evenly over its window of an input of height and width `size`, whose "
          "layout is that of memory_format.  grad: [N, C, oH, oW] floating -> [N, C, H, W].",
      .infer =
          [](Infer& c) {
            const auto& attrs = c.attrs<uneven_avg_pool2d_backward_attrs>();
            const std::string_view format = attrs.memory_format;
            check<ValueError>(format == "contiguous" || format == "channels_last",
                              "uneven_avg_pool2d_backward: unknown memory format \"{}\"; use "
                              "contiguous or channels_last",
                              format);
            const Tensor& grad = c.in(0);
            check<DTypeError>(kFloatingTypes.contains(grad.dtype()),
                              "uneven_avg_pool2d_backward: dtype {} is not supported; use float32 "
                              "or float64",
                              name_of(grad.dtype()));
            check<ShapeError>(
                grad.dim() == 4 && grad.sizes()[2] > 0 && grad.sizes()[3] > 0 &&
                    grad.sizes()[2] <= kMostAdaptiveWindows &&
                    grad.sizes()[3] <= kMostAdaptiveWindows,
                "uneven_avg_pool2d_backward: grad of size {}, expected [N, C, h, w] with h and w "
                "from 1 to {}",
                grad.sizes(), kMostAdaptiveWindows);
            for (const std::int64_t size : attrs.size) {
              check<ShapeError>(size > 0 && size < std::int64_t{1} << 31,
                                "uneven_avg_pool2d_backward: an input of height and width {}, "
                                "expected 1 to 2^31 - 1",
                                attrs.size);
            }
            c.out(grad.dtype(), {grad.sizes()[0], grad.sizes()[1], attrs.size[0], attrs.size[1]},
                  format == "channels_last" ? kChannelsLast : kContiguous);
          },
      .gradient =
          [](GradientContext& g) {
            // Its transpose is the pooling itself.
            const IntList wanted = g.input(0).sizes();
            g.set(0, uneven_avg_pool2d(g.grad(), {wanted[2], wanted[3]}));
          },
      .saves = {shape_of(0)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 3, 2}), Dims{5, 7}});
            s.add({s.normal({2, 20, 4, 3}), Dims{9, 4}, "channels_last"});
            s.add({s.normal({1, 2, 5, 6}), Dims{3, 4}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3, 4, 4}), Dims{5}}, "expected [N, C, h, w]");
            e.fails({e.normal({2, 3, 3, 3}), Dims{5}, "rows"}, "unknown memory format");
            e.fails({e.normal({2, 3, 3, 3}), Dims{5, 0}}, "expected 1 to 2^31 - 1");
          },
  };
}

}  // namespace facula::ops
