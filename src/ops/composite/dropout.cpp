#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"
#include "ops/schema/random.h"

namespace facula {

Tensor dropout(const Tensor& self, double p, bool training, Generator* generator) {
  check_defined("dropout", self);
  check<ValueError>(p >= 0 && p <= 1, "dropout: the probability {} is outside [0, 1]", p);
  if (!training || p == 0) return self;
  const Tensor state = reserve_random(generator, self.numel(), kFloat32).to(self.device());
  return philox_dropout(self, state, p);
}

namespace ops {

CompositeDef define_dropout() {
  return {
      .signature =
          "dropout(Tensor self, float p=0.5, bool training=True, "
          "Generator? generator=None) -> Tensor",
      .doc =
          "In training, zeroes elements with probability p and scales the rest by 1 / (1 - p).  "
          "self: [*] floating -> [*].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), 0.5, false});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), -0.5}, "outside [0, 1]");
          },
  };
}

}  // namespace ops
}  // namespace facula
