#include "ops/attrs/conv2d_backward_weight.h"

#include <limits>

#include <facula/ops.h>

#include "ops/schema/convolution.h"
#include "ops/schema/op_def.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& a = c.attrs<conv2d_backward_weight_attrs>();
  const Tensor& grad = c.in(0);
  const Tensor& x = c.in(1);
  check_conv_dtypes("conv2d_backward_weight", grad, "grad", x, "input");
  check<ShapeError>(grad.dim() == 4 && x.dim() == 4 && a.groups > 0,
                    "conv2d_backward_weight: grad has size {} and input {}, expected [N, C, H, W]",
                    grad.sizes(), x.sizes());
  const Dims weight = {grad.sizes()[1], x.sizes()[1] / a.groups, a.kernel_size[0],
                       a.kernel_size[1]};
  const ConvShape shape = conv_shape("conv2d_backward_weight", x.sizes(), weight,
                                     {a.stride, a.padding, a.dilation, a.groups});
  check<ShapeError>(grad.sizes() == IntList(shape.output_sizes()),
                    "conv2d_backward_weight: grad has size {}, but the convolution of an input of "
                    "size {} gives {}",
                    grad.sizes(), x.sizes(), shape.output_sizes());
  c.out(grad.dtype(), weight);
}

}  // namespace

OpDef define_conv2d_backward_weight() {
  return {
      .signature =
          "conv2d_backward_weight(Tensor grad, Tensor input, int[2] kernel_size, "
          "int[2] stride=1, int[2] padding=0, int[2] dilation=1, int groups=1) -> Tensor",
      .doc =
          "Gradient of conv2d's weight, given that of its result.  grad: [N, OC, oH, oW] floating, "
          "input: [N, C, H, W] -> [OC, C / groups, kH, kW].",
      .infer = infer,
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<conv2d_backward_weight_attrs>();
            if (g.needs(0)) {
              g.set(0, conv2d(g.input(1), g.grad(), {}, a.stride, a.padding, a.dilation, a.groups));
            }
            if (g.needs(1)) {
              g.set(1, conv2d_backward_input(g.input(0), g.grad(), g.input(1).sizes(), a.stride,
                                             a.padding, a.dilation, a.groups));
            }
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::lower,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 4, 4, 4}), s.normal({2, 3, 6, 5}), Dims{3, 2}});
            s.add({s.normal({1, 3, 4, 9}), s.normal({1, 2, 7, 7}), Dims{3, 3}, Dims{2, 1},
                   Dims{1, 2}});
            s.add({s.normal({2, 6, 3, 3}), s.normal({2, 4, 5, 5}), Dims{3}, Dims{2}, Dims{1},
                   Dims{1}, 2});
            s.add({s.normal({0, 2, 3, 3}), s.normal({0, 3, 5, 5}), Dims{3}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 4, 4, 4}), e.normal({2, 3, 5, 5}), Dims{3}},
                    "gives [2, 4, 3, 3]");
            e.fails({e.normal({2, 4, 4, 4}), e.normal({2, 3, 5, 5}),
                     Dims{std::numeric_limits<std::int64_t>::max(), 3}, Dims{1}, Dims{0}, Dims{2}},
                    "conv2d_backward_weight: a kernel of 9223372036854775807");
          },
  };
}

}  // namespace facula::ops
