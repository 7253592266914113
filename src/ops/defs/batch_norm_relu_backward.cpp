#include "ops/attrs/batch_norm_relu_backward.h"

#include <facula/ops.h>

#include "ops/schema/batch_norm.h"
#include "ops/schema/channels.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  infer_batch_norm_backward(c, c.in(1), {2, 3, 4, 5}, "batch_norm_relu_backward");
  check_cap(c.attrs<batch_norm_relu_backward_attrs>().cap, "batch_norm_relu_backward");
}

}  // namespace

OpDef define_batch_norm_relu_backward() {
  return {
      .signature =
          "batch_norm_relu_backward(Tensor grad, Tensor input, Tensor? weight, "
          "Tensor? bias, Tensor mean, Tensor invstd, float? cap=None) -> (Tensor, Tensor, Tensor)",
      .doc =
          "Gradients of batch_norm_relu without a residual with respect to input, weight and bias. "
          " grad, input: [N, C, ...] floating, weight, bias, mean, invstd: [C] -> [N, C, ...], "
          "[C], [C].",
      .infer = infer,
      .gradient = not_differentiable("batch_norm_relu composes its gradient for higher orders"),
      .saves = kSavesNothing,
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({6, 3}), s.normal({6, 3}), NoneType{}, NoneType{}, s.normal({3}),
                   s.uniform({3}, 0.5, 2)});
            s.add({s.normal({4, 3, 5, 2}), s.normal({4, 3, 5, 2}), s.normal({3}), s.normal({3}),
                   s.normal({3}), s.uniform({3}, 0.5, 2)});
            s.add({s.normal({4, 70, 5, 2}), s.normal({4, 70, 5, 2}), s.normal({70}), s.normal({70}),
                   s.normal({70}), s.uniform({70}, 0.5, 2)});
            s.add({s.normal({4, 20, 5}), s.normal({4, 20, 5}), s.normal({20}), s.normal({20}),
                   s.normal({20}), s.uniform({20}, 0.5, 2), 0.75});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({6, 2}), e.normal({6, 3}), NoneType{}, NoneType{}, e.normal({3}),
                     e.normal({3})},
                    "grad of size");
            e.fails({e.normal({6, 3}).to(kBool), e.normal({6, 3}), NoneType{}, NoneType{},
                     e.normal({3}), e.normal({3})},
                    "a bool grad for a float32 input");
            e.fails({e.normal({6, 3}), e.normal({6, 3}), NoneType{}, e.normal({2}), e.normal({3}),
                     e.normal({3})},
                    "of size");
            e.fails({e.normal({6, 3}), e.normal({6, 3}), NoneType{}, NoneType{}, e.normal({3}),
                     e.normal({3}), -1.0},
                    "not positive");
          },
  };
}

}  // namespace facula::ops
