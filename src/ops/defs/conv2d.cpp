#include "ops/attrs/conv2d.h"

#include <limits>

#include <facula/ops.h>

#include "ops/schema/convolution.h"
#include "ops/schema/op_def.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const auto& a = c.attrs<conv2d_attrs>();
  infer_conv2d(c, "conv2d", {a.stride, a.padding, a.dilation, a.groups});
}

}  // namespace

OpDef define_conv2d() {
  return {
      .signature =
          "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, "
          "int[2] padding=0, int[2] dilation=1, int groups=1) -> Tensor",
      .doc =
          "Two-dimensional cross-correlation.  input: [N, C, H, W], weight: [OC, C / groups, kH, "
          "kW], bias: [OC] -> [N, OC, oH, oW]. The result is channels_last if input or weight "
          "is, which is the fastest layout; float32 or float64.",
      .infer = infer,
      .gradient =
          [](GradientContext& g) {
            const auto& a = g.attrs<conv2d_attrs>();
            if (g.needs(0)) {
              g.set(0, conv2d_backward_input(g.grad(), g.input(1), g.input(0).sizes(), a.stride,
                                             a.padding, a.dilation, a.groups));
            }
            if (g.needs(1)) {
              const IntList weight = g.input(1).sizes();
              g.set(1, conv2d_backward_weight(g.grad(), g.input(0), {weight[2], weight[3]},
                                              a.stride, a.padding, a.dilation, a.groups));
            }
            if (g.needs(2)) g.set(2, sum(g.grad(), {0, 2, 3}));
          },
      .saves = {input(0), input(1)},
      .autocast = Autocast::lower,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 6, 5}), s.normal({4, 3, 3, 2}), s.normal({4})});
            s.add({s.normal({1, 2, 7, 7}), s.normal({3, 2, 3, 3}), NoneType{}, Dims{2, 1},
                   Dims{1, 2}});
            s.add({s.normal({2, 2, 6, 6}), s.normal({2, 2, 3, 3}), NoneType{}, Dims{1}, Dims{2},
                   Dims{2}});
            s.add({s.normal({2, 4, 5, 5}), s.normal({6, 2, 3, 3}), s.normal({6}), Dims{2}, Dims{1},
                   Dims{1}, 2});
            s.add({s.normal({2, 3, 4, 4}), s.normal({3, 1, 3, 3}), NoneType{}, Dims{1}, Dims{1},
                   Dims{1}, 3});
            s.add({s.normal({2, 3, 4, 4}), s.normal({5, 3, 1, 1}), NoneType{}, Dims{2}});
            s.add({s.normal({0, 3, 4, 4}), s.normal({5, 3, 3, 3}), s.normal({5})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3, 5, 5}), e.normal({4, 2, 3, 3})}, "has 3 channels");
            e.fails({e.normal({3, 5, 5}), e.normal({4, 3, 3, 3})}, "expected [N, C, H, W]");
            e.fails({e.normal({1, 3, 2, 2}), e.normal({4, 3, 3, 3})}, "smaller kernel");
            e.fails({e.normal({1, 3, 5, 5}), e.normal({4, 3, 3, 3}), e.normal({3})},
                    "bias has size");
            e.fails({e.normal({1, 3, 5, 5}), e.normal({4, 3, 3, 3}), NoneType{}, Dims{0}},
                    "must be positive");
            constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
            e.fails({e.normal({1, 3, 5, 5}), e.normal({4, 3, 3, 3}), NoneType{}, Dims{1}, Dims{0},
                     Dims{kHuge}},
                    "conv2d: stride [1, 1], padding [0, 0] and dilation");
            e.fails({e.normal({1, 3, 5, 5}), e.normal({4, 3, 3, 3}), NoneType{}, Dims{1},
                     Dims{kHuge / 2 + 1}},
                    "less than 2^31");
            e.fails({e.integers({1, 3, 5, 5}, 0, 9), e.normal({4, 3, 3, 3})}, "convert with to()");
          },
  };
}

}  // namespace facula::ops
