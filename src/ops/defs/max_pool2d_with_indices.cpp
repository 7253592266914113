#include "ops/attrs/max_pool2d_with_indices.h"

#include <limits>

#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/pool.h"

namespace facula::ops {
namespace {

using Attrs = max_pool2d_with_indices_attrs;

void infer(Infer& c) {
  const auto& attrs = c.attrs<Attrs>();
  const Tensor& input = c.in(0);
  const PoolShape shape = pool_shape(input, attrs.kernel_size, attrs.stride, attrs.padding,
                                     attrs.dilation, attrs.ceil_mode, "max_pool2d");
  const Dims sizes{input.sizes()[0], input.sizes()[1], shape.out_height, shape.out_width};
  const MemoryFormat format = channel_format(input);
  c.out(input.dtype(), sizes, format);
  c.out(kInt32, sizes, format);
}

}  // namespace

OpDef define_max_pool2d_with_indices() {
  return {
      .signature =
          "max_pool2d_with_indices(Tensor self, int[] kernel_size, int[] stride=[], "
          "int[] padding=[0], int[] dilation=[1], bool ceil_mode=False) -> "
          "(Tensor, Tensor)",
      .doc =
          "Maxima of sliding windows, and positions h * W + w of the maxima. NaN wins; of equal "
          "values the first.  self: [N, C, H, W] floating -> [N, C, oH, oW], int32 [N, C, oH, oW].",
      .infer = infer,
      .gradient =
          [](GradientContext& g) {
            const IntList sizes = g.input(0).sizes();
            const auto& a = g.attrs<Attrs>();
            g.set(0,
                  max_pool2d_backward(g.grad(0), g.output(1), {sizes[2], sizes[3]}, a.kernel_size,
                                      a.stride, a.padding, a.dilation, a.ceil_mode));
          },
      .saves = {shape_of(0), output(1)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 6, 6}), Dims{2}});
            s.add({s.normal({2, 20, 7, 5}), Dims{3}, Dims{2}, Dims{1}});
            s.add({s.normal({1, 2, 7, 8}), Dims{3, 2}, Dims{2, 1}, Dims{1, 0}, Dims{2, 1}, true});
            s.add({s.normal({2, 18, 2, 4}), Dims{3}, Dims{2}, Dims{0}, Dims{1}, true});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3, 4}), Dims{2}}, "expected [N, C, H, W]");
            e.fails({e.normal({2, 3, 4, 4}), Dims{5}}, "too small");
            e.fails({e.normal({2, 3, 4, 4}), Dims{2}, Dims{0}}, "must be positive");
            e.fails({e.normal({2, 3, 4, 4}), Dims{3}, Dims{1}, Dims{0},
                     Dims{std::numeric_limits<std::int64_t>::max()}},
                    "less than 2^31");
            e.fails({e.normal({2, 3, 4, 4}), Dims{2}, Dims{2}, Dims{2}}, "at most half");
            e.fails({e.normal({1, 4, 2, 6}), Dims{2}, Dims{1}, Dims{1}, Dims{3}}, "in the padding");
          },
  };
}

}  // namespace facula::ops
