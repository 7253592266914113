#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor swapaxes(const Tensor& self, std::int64_t axis0, std::int64_t axis1) {
  check_defined("swapaxes", self);
  return in_call("swapaxes", {&self}, [&] { return transpose(self, axis0, axis1); });
}

namespace ops {

CompositeDef define_swapaxes() {
  return {
      .signature = "swapaxes(Tensor self, int axis0, int axis1) -> Tensor",
      .doc = "The same as transpose.  self: [*, M, *, N, *] -> [*, N, *, M, *].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 4}), 0, -1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), 0, 2}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
