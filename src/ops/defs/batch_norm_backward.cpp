#include "ops/attrs/batch_norm_backward.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"

namespace facula::ops {

OpDef define_batch_norm_backward() {
  return {
      .signature =
          "batch_norm_backward(Tensor grad, Tensor input, Tensor? weight, Tensor mean, "
          "Tensor invstd) -> (Tensor, Tensor, Tensor)",
      .doc = "Gradients of batch_norm_train with respect to input, weight and bias.",
      .infer =
          [](Infer& c) {
            const Tensor& input = c.in(1);
            const std::int64_t channels = check_channels(input, "batch_norm_backward");
            check<ShapeError>(c.in(0).sizes() == input.sizes(),
                              "batch_norm_backward: grad of size {} for an input of size {}",
                              c.in(0).sizes(), input.sizes());
            for (int i : {2, 3, 4}) {
              check_per_channel(c.in(i), "weight, mean or invstd", input, "batch_norm_backward");
            }
            c.out(input.dtype(), input.sizes(), channel_format(input));
            c.out(input.dtype(), {channels});
            c.out(input.dtype(), {channels});
          },
      .gradient = not_differentiable("batch_norm_train composes its gradient for higher orders"),
      .saves = kSavesNothing,
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({6, 3}), s.normal({6, 3}), NoneType{}, s.normal({3}),
                   s.uniform({3}, 0.5, 2)});
            s.add({s.normal({4, 3, 5, 2}), s.normal({4, 3, 5, 2}), s.normal({3}), s.normal({3}),
                   s.uniform({3}, 0.5, 2)});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({6, 2}), e.normal({6, 3}), NoneType{}, e.normal({3}), e.normal({3})},
                    "grad of size");
          },
  };
}

}  // namespace facula::ops
