#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor where(const Tensor& condition, Scalar input, Scalar other) {
  check_defined("where", condition);
  return where(condition, full({}, input, condition.device()), full({}, other, condition.device()));
}

namespace ops {

CompositeDef define_where_scalar() {
  return {
      .signature = "where.scalar(Tensor condition, Scalar input, Scalar other) -> Tensor",
      .doc =
          "input where condition, else other: int64 for integers, bool for two masks, else of the "
          "default dtype.  condition: bool [*] -> [*].",
      .samples =
          [](Samples& s) {
            s.add({s.mask({3, 4}), 1, 0});
            s.add({s.mask({5}), -0.5, 2});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), 1, 0}, "where: the condition has dtype float32, expected bool");
          },
  };
}

}  // namespace ops
}  // namespace facula
