#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor expand_as(const Tensor& self, const Tensor& other) {
  check_defined("expand_as", self);
  check_defined("expand_as", other);
  return in_call("expand_as", {&self, &other}, [&] { return expand(self, other.sizes()); });
}

namespace ops {

CompositeDef define_expand_as() {
  return {
      .signature = "expand_as(Tensor self, Tensor other) -> Tensor",
      .doc = "expand to the size of other.  self, other: [*] -> the size of other.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 1}), s.normal({2, 3, 4})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), e.normal({4})}, "does not fit");
          },
  };
}

}  // namespace ops
}  // namespace facula
