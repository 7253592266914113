#include <facula/ops.h>

#include "ops/schema/loss.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor l1_loss(const Tensor& self, const Tensor& target, std::string_view reduction) {
  return reduce_pairs(self, target, "absolute_error", reduction, "l1_loss");
}

namespace ops {

CompositeDef define_l1_loss() {
  return {
      .signature = "l1_loss(Tensor self, Tensor target, str reduction='mean') -> Tensor",
      .doc =
          "Absolute difference of self and target of equal size; reduction mean, sum or none.  "
          "self, target: [*] floating -> [] (reduction none: [*]).",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4})});
            s.add({s.normal({5}), s.normal({5}), "sum"});
            s.add({s.normal({5}), s.normal({5}), "none"});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({3})}, "target of size");
            e.fails({e.normal({0, 3}), e.normal({0, 3})}, "has no mean");
            e.fails({e.normal({2}), e.normal({2}), "average"}, "reduction");
          },
  };
}

}  // namespace ops
}  // namespace facula
