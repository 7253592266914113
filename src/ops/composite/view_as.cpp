#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor view_as(const Tensor& self, const Tensor& other) {
  check_defined("view_as", self);
  check_defined("view_as", other);
  return in_call("view_as", {&self, &other}, [&] { return view(self, other.sizes()); });
}

namespace ops {

CompositeDef define_view_as() {
  return {
      .signature = "view_as(Tensor self, Tensor other) -> Tensor",
      .doc = "view with the size of other.  self, other: [*] -> the size of other.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 6}), s.normal({3, 4})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({4})}, "has 6 elements");
          },
  };
}

}  // namespace ops
}  // namespace facula
