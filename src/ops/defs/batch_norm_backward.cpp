#include "ops/attrs/batch_norm_backward.h"

#include <facula/ops.h>

#include "ops/schema/batch_norm.h"

namespace facula::ops {

OpDef define_batch_norm_backward() {
  return {
      .signature =
          "batch_norm_backward(Tensor grad, Tensor input, Tensor? weight, Tensor mean, "
          "Tensor invstd) -> (Tensor, Tensor, Tensor)",
      .doc =
          "Gradients of batch_norm_train with respect to input, weight and bias.  grad, input: [N, "
          "C, ...] floating, weight, mean, invstd: [C] -> [N, C, ...], [C], [C].",
      .infer =
          [](Infer& c) {
            infer_batch_norm_backward(c, c.in(1), {2, 3, 4}, "batch_norm_backward");
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
            e.fails({e.normal({6, 3}).to(kFloat16), e.normal({6, 3}), NoneType{}, e.normal({3}),
                     e.normal({3})},
                    "a float16 grad for a float32 input");
          },
  };
}

}  // namespace facula::ops
