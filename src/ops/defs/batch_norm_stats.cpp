#include <facula/ops.h>

#include "ops/schema/batch_norm.h"
#include "ops/schema/channels.h"

namespace facula::ops {

OpDef define_batch_norm_stats() {
  return {
      .signature =
          "batch_norm_stats(Tensor self, float eps=1e-05) -> "
          "(Tensor, Tensor, Tensor)",
      .doc =
          "The statistics of batch_norm_train: mean, 1/sqrt(variance + eps) and biased variance of "
          "each channel.  self: [N, C, ...] floating -> [C], [C], [C].",
      .infer =
          [](Infer& c) {
            const std::int64_t channels = check_normalizable(c.in(0), "batch_norm_stats");
            for (int i = 0; i < 3; ++i) c.out(c.in(0).dtype(), {channels});
          },
      .gradient = not_differentiable("batch_norm_train differentiates through its statistics"),
      .saves = kSavesNothing,
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({6, 3})});
            s.add({s.normal({4, 70, 2}), 0.1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({1, 3})}, "no variance");
          },
  };
}

}  // namespace facula::ops
