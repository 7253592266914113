#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor broadcast_to(const Tensor& self, IntList size) {
  check_defined("broadcast_to", self);
  return in_call("broadcast_to", {&self}, [&] { return expand(self, size); });
}

namespace ops {

CompositeDef define_broadcast_to() {
  return {
      .signature = "broadcast_to(Tensor self, int[] size) -> Tensor",
      .doc = "The same as expand.  self: [*] -> `size`.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 1}), Dims{2, 3, 4}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), Dims{4}}, "does not fit");
          },
  };
}

}  // namespace ops
}  // namespace facula
