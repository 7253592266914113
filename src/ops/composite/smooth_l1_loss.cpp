#include <facula/ops.h>

#include "ops/schema/loss.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, std::string_view reduction,
                      double beta) {
  check<ValueError>(beta >= 0, "smooth_l1_loss: beta is {}, must not be negative", beta);
  if (beta == 0) return reduce_pairs(self, target, "absolute_error", reduction, "smooth_l1_loss");
  return reduce_pairs(self, target, "huber_error", reduction, "smooth_l1_loss", beta) / beta;
}

namespace ops {

CompositeDef define_smooth_l1_loss() {
  return {
      .signature =
          "smooth_l1_loss(Tensor self, Tensor target, str reduction='mean', float beta=1) "
          "-> Tensor",
      .doc =
          "d^2 / (2 beta) where the difference d is below beta, d - beta / 2 beyond; with beta 0, "
          "l1_loss.  self, target: [*] floating -> [] (reduction none: [*]).",
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
            e.fails({e.normal({3}), e.normal({3}), "mean", -1.0}, "negative");
          },
  };
}

}  // namespace ops
}  // namespace facula
