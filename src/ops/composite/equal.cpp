#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

bool equal(const Tensor& self, const Tensor& other) {
  check_operands({self, other}, "equal");
  check<DeviceError>(!self.device().is_null(),
                     "equal: the result for tensors on the null device is unknown");
  return self.sizes() == other.sizes() && all(self == other).item<bool>();
}

namespace ops {

CompositeDef define_equal() {
  return {
      .signature = "equal(Tensor self, Tensor other) -> bool",
      .doc =
          "True if both have the same size and equal elements, after type promotion; NaN equals "
          "nothing.  self, other: [*] -> bool.",
      .samples =
          [](Samples& s) {
            const Tensor x = s.normal({3, 4});
            s.add({x, x * 1});
            s.add({x, s.normal({3, 4})});
            s.add({x, s.normal({4})});
            s.add({tensor({1, 2}), tensor({1.0, 2.0})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), Tensor()}, "equal: an input is an undefined tensor");
            const Tensor half = e.normal({3}).to(kFloat16);
            e.fails({half, half}, "equal: dtype float16 is not supported");
            e.fails({e.normal({3}), half}, "convert it with to(kFloat32)");
          },
  };
}

}  // namespace ops
}  // namespace facula
