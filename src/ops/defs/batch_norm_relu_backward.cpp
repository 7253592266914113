#include <facula/ops.h>

#include "ops/schema/batch_norm.h"
#include "ops/schema/channels.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const Tensor& input = c.in(1);
  infer_batch_norm_backward(c, input, {2, 3, 4, 5}, "batch_norm_relu_backward");
  check_residual(c.in(6), input, "batch_norm_relu_backward");
  c.out(input.dtype(), c.has(6) ? input.sizes() : IntList{0},
        c.has(6) ? channel_format(input) : kContiguous);
}

}  // namespace

OpDef define_batch_norm_relu_backward() {
  return {
      .signature =
          "batch_norm_relu_backward(Tensor grad, Tensor input, Tensor? weight, "
          "Tensor? bias, Tensor mean, Tensor invstd, Tensor? output=None) "
          "-> (Tensor, Tensor, Tensor, Tensor)",
      .doc =
          "Gradients of batch_norm_relu with respect to input, weight, bias and residual. With "
          "a residual, output is the result, whose zeros stop gradients; without, it is not "
          "needed, and the last gradient is empty.",
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
                   s.normal({70}), s.uniform({70}, 0.5, 2), s.normal({4, 70, 5, 2})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({6, 2}), e.normal({6, 3}), NoneType{}, NoneType{}, e.normal({3}),
                     e.normal({3})},
                    "grad of size");
            e.fails({e.normal({6, 3}), e.normal({6, 3}), NoneType{}, e.normal({2}), e.normal({3}),
                     e.normal({3})},
                    "of size");
          },
  };
}

}  // namespace facula::ops
