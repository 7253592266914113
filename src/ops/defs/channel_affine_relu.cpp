#include "ops/attrs/channel_affine_relu.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"

namespace facula::ops {
namespace {

constexpr const char* kName = "channel_affine_relu";

void infer(Infer& c) {
  const Tensor& input = c.in(0);
  check_channels(input, kName);
  check<ValueError>(c.has(1) && c.has(2), "{}: scale or shift is undefined", kName);
  check_per_channel(c.in(1), "scale", input, kName);
  check_per_channel(c.in(2), "shift", input, kName);
  check_residual(c.in(3), input, kName);
  check_cap(c.attrs<channel_affine_relu_attrs>().cap, kName);
  c.out(input.dtype(), input.sizes(), channel_format(input));
}

void gradient(GradientContext& g) {
  const Tensor grad =
      relu_backward(g.take_grad(), g.output(0), g.attrs<channel_affine_relu_attrs>().cap);
  const Tensor scale = g.input(1);
  if (g.needs(0)) g.set(0, channel_affine(grad, scale, zeros_like(scale)));
  const Dims dims = all_but_channels(grad.dim());
  if (g.needs(1)) g.set(1, sum(grad * g.input(0), dims));
  if (g.needs(2)) g.set(2, sum(grad, dims));
  if (g.needs(3)) g.set(3, grad);
}

}  // namespace

OpDef define_channel_affine_relu() {
  return {
      .signature =
          "channel_affine_relu(Tensor self, Tensor scale, Tensor shift, "
          "Tensor? residual=None, float? cap=None) -> Tensor",
      .doc =
          "relu(channel_affine(self, scale, shift) + residual) in one pass, at most cap.  self, "
          "residual: [N, C, ...] floating, scale, shift: [C] -> [N, C, ...].",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(0).for_grad_of(1), input(1), output(0)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({6, 3}), s.normal({3}), s.normal({3})});
            s.add({s.normal({2, 3, 5}), s.normal({3}), s.normal({3}), s.normal({2, 3, 5})});
            s.add({s.normal({2, 70}), s.normal({70}), s.normal({70}), s.normal({2, 70})});
            s.add({s.normal({6, 20}), s.normal({20}), s.normal({20}), NoneType{}, 0.75});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({6, 3}), e.normal({2}), e.normal({3})}, "scale of size");
            e.fails({e.normal({6}), e.normal({2}), e.normal({3})}, "expected [N, C]");
            e.fails({e.normal({6, 3}), e.normal({3}), e.normal({3}), e.normal({6, 1})},
                    "residual of size");
            e.fails({e.normal({6, 3}), e.normal({3}), e.normal({3}), NoneType{}, -1.0},
                    "not positive");
          },
  };
}

}  // namespace facula::ops
