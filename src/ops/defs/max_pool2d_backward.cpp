#include "ops/attrs/max_pool2d_backward.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/op_def.h"
#include "ops/schema/pool.h"

namespace facula::ops {
namespace {

/// Windows, if they are given, must be as many as the gradients.
void check_windows(const Infer& c) {
  const auto& a = c.attrs<max_pool2d_backward_attrs>();
  if (a.kernel_size.empty()) return;
  const IntList windows = c.in(0).sizes();
  const PoolShape shape =
      pool_shape(Dims{windows[0], windows[1], a.size[0], a.size[1]}, a.kernel_size, a.stride,
                 a.padding, a.dilation, a.ceil_mode, "max_pool2d_backward");
  check<ShapeError>(windows[2] == shape.out_height && windows[3] == shape.out_width,
                    "max_pool2d_backward: grad of size {}, but there are {} x {} windows over an "
                    "image of size {}; pass the options of the forward pass",
                    windows, shape.out_height, shape.out_width, a.size);
}

void check_rectified(const Infer& c) {
  if (!c.has(2)) return;
  const Tensor &grad = c.in(0), &rectified = c.in(2);
  const Dims& size = c.attrs<max_pool2d_backward_attrs>().size;
  const Dims expected = {grad.sizes()[0], grad.sizes()[1], size[0], size[1]};
  check<ShapeError>(rectified.sizes() == expected,
                    "max_pool2d_backward: rectified has size {}, expected {}", rectified.sizes(),
                    expected);
  check<DTypeError>(rectified.dtype() == grad.dtype(),
                    "max_pool2d_backward: grad is {}, rectified {}; convert one of them with to()",
                    name_of(grad.dtype()), name_of(rectified.dtype()));
}

}  // namespace

OpDef define_max_pool2d_backward() {
  return {
      .signature =
          "max_pool2d_backward(Tensor grad, Tensor indices, int[2] size, int[] kernel_size=[], "
          "int[] stride=[], int[] padding=[0], int[] dilation=[1], bool ceil_mode=False, "
          "Tensor? rectified=None) -> Tensor",
      .doc =
          "Adds each grad to the input position its index names; the input's height and width are "
          "`size`. If kernel_size is given, every index must lie in its window, which is faster. "
          "If the input is what relu gave, `rectified`, the result is the gradient of relu's.  "
          "grad: [N, C, oH, oW] floating, indices: [N, C, oH, oW] int32, rectified: [N, C, H, W] "
          "-> [N, C, H, W].",
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
            check_windows(c);
            check_rectified(c);
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
            const Tensor grad =
                g.has_input(2) ? relu_backward(g.take_grad(), g.input(2)) : g.grad();
            g.set(0, reshape(gather(flatten(grad, 2), 2, flat), indices.sizes()));
            if (g.needs(2)) g.set(2, zeros_like(grad));
          },
      .saves = {input(1), input(2)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 2, 2}), s.integers({2, 3, 2, 2}, 0, 16).to(kInt32), Dims{4, 4}});
            for (MemoryFormat format : {kContiguous, kChannelsLast}) {
              const Tensor x = s.normal({2, 19, 7, 5}).contiguous(format);
              const Tensor indices = std::get<1>(max_pool2d_with_indices(x, 3, 2, 1));
              const Tensor grad = s.normal(Dims(indices.sizes()));
              s.add({grad, indices, Dims{7, 5}, Dims{3}, Dims{2}, Dims{1}});
              s.add({grad, indices, Dims{7, 5}, Dims{3}, Dims{2}, Dims{1}, Dims{1}, false, x});
            }
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3, 2, 2}), e.normal({2, 3, 2, 2}), Dims{4, 4}}, "int32");
            const Tensor grad = e.normal({2, 16, 2, 2});
            const Tensor indices = full(grad.sizes(), 5).to(kInt32).contiguous(kChannelsLast);
            e.fails({grad, indices, Dims{4, 4}, Dims{3}, Dims{1}, Dims{1}}, "4 x 4 windows");
            e.fails({grad, indices, Dims{4, 4}, Dims{2}}, "outside that window");
            e.fails({grad, indices, Dims{4, 4}, Dims{2}, Dims{2}, Dims{0}, Dims{1}, false, grad},
                    "rectified has size");
            e.fails({grad, indices, Dims{4, 4}, Dims{2}, Dims{2}, Dims{0}, Dims{1}, false,
                     e.normal({2, 16, 4, 4}).to(kFloat64)},
                    "rectified float64");
          },
  };
}

}  // namespace facula::ops
