#include "ops/attrs/avg_pool2d.h"

#include <limits>

#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/pool.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& attrs = c.attrs<avg_pool2d_attrs>();
  const Tensor& input = c.in(0);
  const PoolShape shape = pool_shape(input, attrs.kernel_size, attrs.stride, attrs.padding, {1},
                                     attrs.ceil_mode, "avg_pool2d");
  c.out(input.dtype(), {input.sizes()[0], input.sizes()[1], shape.out_height, shape.out_width},
        channel_format(input));
}

}  // namespace

OpDef define_avg_pool2d() {
  return {
      .signature =
          "avg_pool2d(Tensor self, int[] kernel_size, int[] stride=[], int[] padding=[0], "
          "bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
      .doc =
          "Means of sliding windows; stride defaults to the kernel size.  self: [N, C, H, W] "
          "floating -> [N, C, oH, oW].",
      .infer = infer,
      .gradient =
          [](GradientContext& g) {
            const auto& attrs = g.attrs<avg_pool2d_attrs>();
            const Tensor& input = g.input(0);
            const bool channels_last = is_channels_last(input);
            g.set(0,
                  avg_pool2d_backward(g.grad(), {input.size(2), input.size(3)}, attrs.kernel_size,
                                      attrs.stride, attrs.padding, attrs.count_include_pad,
                                      channels_last ? "channels_last" : "contiguous"));
          },
      .saves = {shape_of(0)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 6, 6}), Dims{2}});
            s.add({s.normal({2, 20, 7, 5}), Dims{3}, Dims{2}, Dims{1}});
            s.add({s.normal({1, 2, 7, 8}), Dims{3, 2}, Dims{2, 1}, Dims{1, 0}, true, false});
            s.add({s.normal({2, 18, 2, 4}), Dims{3}, Dims{2}, Dims{0}, true});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3, 4}), Dims{2}}, "expected [N, C, H, W]");
            e.fails({e.normal({2, 3, 4, 4}), Dims{5}}, "too small");
            e.fails({e.normal({2, 3, 4, 4}), Dims{2},
                     Dims{std::numeric_limits<std::int64_t>::max()}, Dims{0}, true},
                    "less than 2^31");
            e.fails({e.normal({2, 3, 0, 4}), Dims{2}, Dims{1}, Dims{1}}, "in the padding");
          },
  };
}

}  // namespace facula::ops
