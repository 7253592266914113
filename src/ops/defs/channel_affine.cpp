#include "ops/attrs/channel_affine.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"

namespace facula::ops {

OpDef define_channel_affine() {
  return {
      .signature = "channel_affine(Tensor self, Tensor scale, Tensor shift) -> Tensor",
      .doc =
          "self * scale + shift with one scale and shift per channel.  self: [N, C, ...] floating, "
          "scale, shift: [C] -> [N, C, ...].",
      .infer =
          [](Infer& c) {
            const Tensor& input = c.in(0);
            check_channels(input, "channel_affine");
            check<ValueError>(c.has(1) && c.has(2), "channel_affine: scale or shift is undefined");
            check_per_channel(c.in(1), "scale", input, "channel_affine");
            check_per_channel(c.in(2), "shift", input, "channel_affine");
            c.out(input.dtype(), input.sizes(), channel_format(input));
          },
      .gradient =
          [](GradientContext& g) {
            const Tensor scale = g.input(1);
            if (g.needs(0)) g.set(0, channel_affine(g.grad(), scale, zeros_like(scale)));
            const Dims dims = all_but_channels(g.grad().dim());
            if (g.needs(1)) g.set(1, sum(g.grad() * g.input(0), dims));
            if (g.needs(2)) g.set(2, sum(g.grad(), dims));
          },
      .saves = {input(0).for_grad_of(1), input(1)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({6, 3}), s.normal({3}), s.normal({3})});
            s.add({s.normal({4, 70, 5, 2}), s.normal({70}), s.normal({70})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({6, 3}), e.normal({2}), e.normal({3})}, "scale of size");
            e.fails({e.normal({6}), e.normal({2}), e.normal({3})}, "expected [N, C]");
          },
  };
}

}  // namespace facula::ops
