#include <facula/ops.h>

#include "ops/schema/loss.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor huber_loss(const Tensor& self, const Tensor& target, std::string_view reduction,
                  double delta) {
  check<ValueError>(delta > 0, "huber_loss: delta is {}, must be positive", delta);
  return reduce_pairs(self, target, "huber_error", reduction, "huber_loss", delta);
}

namespace ops {

CompositeDef define_huber_loss() {
  return {
      .signature =
          "huber_loss(Tensor self, Tensor target, str reduction='mean', float delta=1) "
          "-> Tensor",
      .doc =
          "d^2 / 2 where the difference d is below delta, delta (d - delta / 2) beyond.  self, "
          "target: [*] floating -> [] (reduction none: [*]).",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 3, 5)});
            s.add({s.normal({3, 4}), s.uniform({3, 4}, 2.5, 5), "none", 3.7});
            s.add({s.normal({5}), s.uniform({5}, 3, 5), "sum"});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3, 4}), e.normal({4})}, "target of size [4]");
            e.fails({e.normal({3}), e.normal({3}), "median"}, "reduction");
            e.fails({e.normal({3}), e.normal({3}), "mean", 0.0}, "must be positive");
          },
  };
}

}  // namespace ops
}  // namespace facula
