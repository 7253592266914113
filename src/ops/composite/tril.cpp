#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor tril(const Tensor& self, std::int64_t diagonal) {
  check_defined("tril", self);
  check<ShapeError>(self.dim() >= 2, "tril: a tensor of size {} is no matrix", self.sizes());
  const TensorOptions options(kInt64, self.device());
  const Tensor row = unsqueeze(arange(self.size(-2), options), 1);
  const Tensor column = arange(self.size(-1), options);
  return in_call("tril", {&self}, [&] {
    return where(row + diagonal >= column, self, zeros({}, {self.dtype(), self.device()}));
  });
}

namespace ops {

CompositeDef define_tril() {
  return {
      .signature = "tril(Tensor self, int diagonal=0) -> Tensor",
      .doc =
          "The elements on and below a diagonal of the last two dimensions, zeros elsewhere. "
          "diagonal > 0: above the main one.  self: [*, M, N] -> [*, M, N].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 3})});
            s.add({s.normal({2, 3, 4}), 1});
            s.add({s.normal({4, 3}), -1});
            s.add({s.mask({3, 3})});
          },
      .errors = [](ErrorSamples& e) { e.fails({e.normal({3})}, "is no matrix"); },
  };
}

}  // namespace ops
}  // namespace facula
