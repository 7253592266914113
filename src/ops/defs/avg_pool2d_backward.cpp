#include "ops/attrs/avg_pool2d_backward.h"

#include <facula/ops.h>

#include "ops/schema/pool.h"

namespace facula::ops {
namespace {

/// The windows of an input of `sizes` must be as many as grad has, with ceil_mode, which takes
/// smaller inputs, or without.
void check_windows(IntList sizes, const avg_pool2d_backward_attrs& attrs, IntList grad) {
  for (const bool ceil_mode : {true, false}) {
    const PoolShape shape = pool_shape(sizes, attrs.kernel_size, attrs.stride, attrs.padding, {1},
                                       ceil_mode, "avg_pool2d_backward");
    if (grad[2] == shape.out_height && grad[3] == shape.out_width) return;
  }
  fail<ShapeError>(
      "avg_pool2d_backward: grad of size {} does not have the windows of an input of size {} with "
      "kernel {}, stride {} and padding {}",
      grad, sizes, attrs.kernel_size, attrs.stride, attrs.padding);
}

}  // namespace

OpDef define_avg_pool2d_backward() {
  return {
      .signature =
          "avg_pool2d_backward(Tensor grad, int[2] size, int[] kernel_size, int[] stride, "
          "int[] padding, bool count_include_pad, str memory_format='contiguous') -> Tensor",
      .doc =
          "Spreads each grad evenly over its window of an input of height and width `size`. A grad "
          "with one position per channel does not tell the layout of that input.  grad: [N, C, oH, "
          "oW] floating -> [N, C, H, W].",
      .infer =
          [](Infer& c) {
            const auto& attrs = c.attrs<avg_pool2d_backward_attrs>();
            const Dims& size = attrs.size;
            const std::string_view format = attrs.memory_format;
            check<ValueError>(format == "contiguous" || format == "channels_last",
                              "avg_pool2d_backward: unknown memory format \"{}\"; use contiguous "
                              "or channels_last",
                              format);
            const Tensor& grad = c.in(0);
            check<DTypeError>(
                kFloatingTypes.contains(grad.dtype()),
                "avg_pool2d_backward: dtype {} is not supported; use float32 or float64",
                name_of(grad.dtype()));
            check<ShapeError>(grad.dim() == 4,
                              "avg_pool2d_backward: grad of size {}, expected "
                              "[N, C, h, w]",
                              grad.sizes());
            const Dims sizes = {grad.sizes()[0], grad.sizes()[1], size[0], size[1]};
            check_windows(sizes, attrs, grad.sizes());
            c.out(grad.dtype(), sizes, format == "channels_last" ? kChannelsLast : kContiguous);
          },
      .gradient =
          [](GradientContext& g) {
            // Its transpose is the pooling itself; ceil_mode only matters for the output's size,
            // which is given here by the windows that grad covers. Small inputs need it.
            const auto& attrs = g.attrs<avg_pool2d_backward_attrs>();
            const IntList wanted = g.input(0).sizes();
            const PoolShape most = pool_shape(g.grad().sizes(), attrs.kernel_size, attrs.stride,
                                              attrs.padding, {1}, true, "avg_pool2d_backward");
            const bool ceil_mode = most.out_height == wanted[2] && most.out_width == wanted[3];
            g.set(0, avg_pool2d(g.grad(), attrs.kernel_size, attrs.stride, attrs.padding, ceil_mode,
                                attrs.count_include_pad));
          },
      .saves = {shape_of(0)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 3, 3}), Dims{6, 6}, Dims{2}, Dims{}, Dims{0}, true});
            s.add({s.normal({2, 3, 1, 1}), Dims{4, 4}, Dims{4}, Dims{}, Dims{0}, true,
                   "channels_last"});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3, 3}), Dims{6, 6}, Dims{2}, Dims{}, Dims{0}, true},
                    "expected [N, C, h, w]");
            e.fails({e.normal({2, 3, 3, 3}), Dims{6, 6}, Dims{2}, Dims{}, Dims{0}, true, "rows"},
                    "unknown memory format");
            e.fails({e.normal({2, 3, 3, 4}), Dims{6, 6}, Dims{2}, Dims{}, Dims{0}, true},
                    "does not have the windows of an input of size [2, 3, 6, 6]");
            e.fails({e.normal({2, 3, 3, 3}), Dims{6, 6}, Dims{2}, Dims{0}, Dims{0}, true},
                    "must be positive");
          },
  };
}

}  // namespace facula::ops
