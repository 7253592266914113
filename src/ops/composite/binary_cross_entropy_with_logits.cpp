#include <facula/ops.h>

#include <limits>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/loss.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor binary_cross_entropy_with_logits(const Tensor& self, const Tensor& target,
                                        const Tensor& weight, const Tensor& pos_weight,
                                        std::string_view reduction) {
  check_loss(self, target, reduction, "binary_cross_entropy_with_logits");
  common_device("binary_cross_entropy_with_logits", {&self, &target, &weight, &pos_weight});
  if (!weight.defined() && !pos_weight.defined()) {
    return reduce_pairs(self, target, "logit_cross_entropy", reduction,
                        "binary_cross_entropy_with_logits");
  }
  return in_call("binary_cross_entropy_with_logits", {&self, &target, &weight, &pos_weight}, [&] {
    Tensor losses;
    if (pos_weight.defined()) {
      // -(p y log s(x) + (1 - y) log(1 - s(x))) with log s(x) = -softplus(-x), which does not
      // overflow.
      const auto soft = [](const Tensor& x) {
        return softplus(x, 1, std::numeric_limits<double>::infinity());
      };
      losses = target * soft(neg(self)) * pos_weight + (1 - target) * soft(self);
    } else {
      losses = logit_cross_entropy(self, target);
    }
    if (weight.defined()) losses = losses * weight;
    return reduce_loss(losses, reduction);
  });
}

namespace ops {

CompositeDef define_binary_cross_entropy_with_logits() {
  return {
      .signature =
          "binary_cross_entropy_with_logits(Tensor self, Tensor target, "
          "Tensor? weight=None, Tensor? pos_weight=None, str reduction='mean') -> Tensor",
      .doc =
          "Binary cross-entropy of logits against probabilities of equal size; weight and "
          "pos_weight broadcast.  self, target: [*] floating -> [] (reduction none: [*]).",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 1)});
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 1), s.uniform({4}, 0.5, 2),
                   s.uniform({4}, 0.5, 2), "sum"});
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 1), s.uniform({3, 1}, 0.5, 2)});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({3})}, "target of size");
            e.fails({e.normal({0, 3}), e.normal({0, 3})}, "has no mean");
            e.fails({e.normal({2}), e.normal({2}), NoneType{}, NoneType{}, "average"}, "reduction");
          },
  };
}

}  // namespace ops
}  // namespace facula
