#include "ops/attrs/conv2d_backward_input.h"

#include <limits>

#include <facula/ops.h>

#include "ops/schema/convolution.h"
#include "ops/schema/op_def.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& a = c.attrs<conv2d_backward_input_attrs>();
  infer_conv2d_backward_input(c, "conv2d_backward_input", a.input_size,
                              {a.stride, a.padding, a.dilation, a.groups});
}

}  // namespace

OpDef define_conv2d_backward_input() {
  return {
      .signature =
          "conv2d_backward_input(Tensor grad, Tensor weight, int[] input_size, "
          "int[2] stride=1, int[2] padding=0, int[2] dilation=1, int groups=1) -> Tensor",
      .doc =
          "Gradient of conv2d's input of size input_size, given that of its result.  grad: [N, OC, "
          "oH, oW] floating, weight: [OC, C / groups, kH, kW] -> [N, C, H, W].",
      .infer = infer,
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<conv2d_backward_input_attrs>();
            if (g.needs(0)) {
              g.set(0, conv2d(g.grad(), g.input(1), {}, a.stride, a.padding, a.dilation, a.groups));
            }
            if (g.needs(1)) {
              const IntList weight = g.input(1).sizes();
              g.set(1, conv2d_backward_weight(g.input(0), g.grad(), {weight[2], weight[3]},
                                              a.stride, a.padding, a.dilation, a.groups));
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
            s.add({s.normal({2, 4, 4, 4}), s.normal({4, 3, 3, 2}), Dims{2, 3, 6, 5}});
            s.add({s.normal({1, 3, 4, 9}), s.normal({3, 2, 3, 3}), Dims{1, 2, 7, 7}, Dims{2, 1},
                   Dims{1, 2}});
            s.add({s.normal({2, 6, 3, 3}), s.normal({6, 2, 3, 3}), Dims{2, 4, 5, 5}, Dims{2},
                   Dims{1}, Dims{1}, 2});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 4, 4, 4}), e.normal({4, 3, 3, 3}), Dims{2, 3, 5, 5}},
                    "gives [2, 4, 3, 3]");
            e.fails({e.normal({2, 4, 4, 4}), e.normal({4, 3, 3, 3}),
                     Dims{2, 3, std::numeric_limits<std::int64_t>::max(), 6}, Dims{1}, Dims{1}},
                    "conv2d_backward_input: a kernel of 3 with dilation 1 or the input");
          },
  };
}

}  // namespace facula::ops
