#include <facula/ops.h>

#include "core/number_range.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"
#include "ops/schema/shape.h"

namespace facula {

Tensor masked_fill(const Tensor& self, const Tensor& mask, Scalar value) {
  check_operands({self, mask}, "masked_fill");
  check<DTypeError>(mask.dtype() == kBool,
                    "masked_fill: mask of dtype {}, expected bool; make it by a comparison, as in "
                    "mask != 0",
                    name_of(mask.dtype()));
  broadcast_sizes(mask.sizes(), self.sizes(), "masked_fill");
  check_fits(value, self.dtype(), "masked_fill");
  return where(mask, full({}, value, {self.dtype(), self.device()}), self);
}

namespace ops {

CompositeDef define_masked_fill() {
  return {
      .signature = "masked_fill(Tensor self, Tensor mask, Scalar value) -> Tensor",
      .doc =
          "value where mask, which broadcasts, else self; the dtype is that of self.  self: [*], "
          "mask: bool [*] -> [*].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.mask({3, 4}), 0.5});
            s.add({s.normal({3, 4}), s.mask({4}), -1});
            s.add({s.integers({3}, 0, 5), s.mask({3}), 7});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), e.normal({3}), 0.0},
                    "masked_fill: mask of dtype float32, expected bool");
            e.fails({e.normal({3}).to(kFloat16), e.mask({3}), 0.0},
                    "masked_fill: dtype float16 is not supported");
            e.fails({e.normal({3}), e.mask({2}), 0.0}, "masked_fill: ");
            e.fails({e.integers({3}, 0, 5).to(kUInt8), e.mask({3}), 300}, "300 does not fit uint8");
          },
  };
}

}  // namespace ops
}  // namespace facula
