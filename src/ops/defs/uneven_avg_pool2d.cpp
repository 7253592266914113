#include "ops/attrs/uneven_avg_pool2d.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/uneven_pool.h"

namespace facula::ops {

OpDef define_uneven_avg_pool2d() {
  return {
      .signature = "uneven_avg_pool2d(Tensor self, int[2] output_size) -> Tensor",
      .doc =
          "adaptive_avg_pool2d where output_size does not divide the image.  self: [N, C, H, W] "
          "floating -> [N, C, oH, oW].",
      .infer =
          [](Infer& c) {
            const Tensor& input = c.in(0);
            const Dims& wanted = c.attrs<uneven_avg_pool2d_attrs>().output_size;
            check<DTypeError>(kFloatingTypes.contains(input.dtype()),
                              "uneven_avg_pool2d: dtype {} is not supported; use float32 or "
                              "float64",
                              name_of(input.dtype()));
            check<ShapeError>(input.dim() == 4,
                              "uneven_avg_pool2d: input of size {}, expected [N, C, H, W]",
                              input.sizes());
            check<ShapeError>(input.sizes()[2] > 0 && input.sizes()[3] > 0,
                              "uneven_avg_pool2d: an input of size {} has no elements to average",
                              input.sizes());
            for (const std::int64_t size : wanted) {
              check<ValueError>(size > 0 && size <= kMostAdaptiveWindows,
                                "uneven_avg_pool2d: output size {}, expected 1 to {}", wanted,
                                kMostAdaptiveWindows);
            }
            c.out(input.dtype(), {input.sizes()[0], input.sizes()[1], wanted[0], wanted[1]},
                  channel_format(input));
          },
      .gradient =
          [](GradientContext& g) {
            const Tensor& input = g.input(0);
            g.set(0, uneven_avg_pool2d_backward(
                         g.grad(), {input.size(2), input.size(3)},
                         is_channels_last(input) ? "channels_last" : "contiguous"));
          },
      .saves = {shape_of(0)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 5, 7}), Dims{3, 2}});
            s.add({s.normal({2, 20, 9, 4}), Dims{4, 3}});
            s.add({s.normal({1, 2, 3, 4}), Dims{5, 6}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3, 4, 4}), Dims{3}}, "expected [N, C, H, W]");
            e.fails({e.normal({2, 3, 0, 4}), Dims{3}}, "no elements to average");
            e.fails({e.normal({2, 3, 4, 4}), Dims{3, 0}}, "expected 1 to 65535");
          },
  };
}

}  // namespace facula::ops
