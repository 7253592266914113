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
  const auto& attrs = c.attrs<batch_norm_apply_attrs>();
  check<ValueError>(attrs.relu || (!c.has(5) && !attrs.cap),
                    "batch_norm_apply: residual and cap belong to relu; pass relu = true");
  check_cap(attrs.cap, "batch_norm_apply");
  c.out(input.dtype(), input.sizes(), channel_format(input));
}

}  // namespace

OpDef define_batch_norm_apply() {
  return {
      .signature =
          "batch_norm_apply(Tensor self, Tensor mean, Tensor invstd, Tensor? weight=None, "
          "Tensor? bias=None, Tensor? residual=None, bool relu=False, float? cap=None) -> Tensor",
      .doc =
          "(self - mean) * invstd * weight + bias per channel; with relu min(max(... + residual, "
          "0), cap).  self, residual: [N, C, ...] floating, mean, invstd, weight, bias: [C] -> [N, "
          "C, ...].",
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
            s.add({s.normal({4, 20, 5}), s.normal({20}), s.uniform({20}, 0.5, 2), NoneType{},
                   NoneType{}, NoneType{}, true, 0.75});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({6, 3}), e.normal({2}), e.normal({3})}, "of size");
            e.fails({e.normal({6, 3}), e.normal({3}), e.normal({3}), NoneType{}, NoneType{},
                     e.normal({6, 3})},
                    "relu = true");
            e.fails({e.normal({6, 3}), e.normal({3}), e.normal({3}), NoneType{}, NoneType{},
                     NoneType{}, true, -1.0},
                    "not positive");
          },
  };
}

}  // namespace facula::ops
