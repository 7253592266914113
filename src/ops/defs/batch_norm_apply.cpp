#include "ops/attrs/batch_norm_apply.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const Tensor& input = c.in(0);
  check_channels(input, "batch_norm_apply");
  check<ValueError>(c.has(1) && c.has(2), "batch_norm_apply: mean or invstd is undefined");
  for (int i : {1, 2, 3, 4}) {
    check_per_channel(c.in(i), "a per-channel input", input, "batch_norm_apply");
  }
  check_residual(c.in(5), input, "batch_norm_apply");
  check<ValueError>(!c.has(5) || c.attrs<batch_norm_apply_attrs>().relu,
                    "batch_norm_apply: a residual is only added before relu; pass relu = true");
  c.out(input.dtype(), input.sizes(), channel_format(input));
}

}  // namespace

OpDef define_batch_norm_apply() {
  return {
      .signature =
          "batch_norm_apply(Tensor self, Tensor mean, Tensor invstd, Tensor? weight=None, "
          "Tensor? bias=None, Tensor? residual=None, bool relu=False) -> Tensor",
      .doc =
          "(self - mean) * invstd * weight + bias per channel of [N, C, ...]; with relu "
          "max(... + residual, 0).",
      .infer = infer,
      .gradient = not_differentiable("use batch_norm, which differentiates through the statistics"),
      .saves = kSavesNothing,
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({6, 3}), s.normal({3}), s.uniform({3}, 0.5, 2)});
            s.add({s.normal({4, 70, 5, 2}), s.normal({70}), s.uniform({70}, 0.5, 2), s.normal({70}),
                   s.normal({70}), NoneType{}, true});
            s.add({s.normal({4, 3, 5}), s.normal({3}), s.uniform({3}, 0.5, 2), NoneType{},
                   s.normal({3}), s.normal({4, 3, 5}), true});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({6, 3}), e.normal({2}), e.normal({3})}, "of size");
            e.fails({e.normal({6, 3}), e.normal({3}), e.normal({3}), NoneType{}, NoneType{},
                     e.normal({6, 3})},
                    "relu = true");
          },
  };
}

}  // namespace facula::ops
