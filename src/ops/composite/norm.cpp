#include <facula/ops.h>

#include <cmath>
#include <limits>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"
#include "ops/schema/zero_gradient.h"

namespace facula {

Tensor norm(const Tensor& self, double p, IntList dim, bool keepdim) {
  check_defined("norm", self);
  check<DTypeError>(kFloatingTypes.contains(self.dtype()),
                    "norm: dtype {} is not supported; convert it with to(kFloat32)",
                    name_of(self.dtype()));
  return in_call("norm", {&self}, [&] {
    if (p == 2) return l2_norm(self, dim, keepdim);
    if (p == 1 || self.numel() == 0) return l1_norm(self, dim, keepdim);
    // The gradient of the sign is 0.
    if (p == 0) return sum(where(self == 0, sign(self), 1), dim, keepdim);
    if (std::isinf(p)) return p > 0 ? amax(abs(self), dim, keepdim) : amin(abs(self), dim, keepdim);
    const auto power = [p](const Tensor& x) { return pow(x, p); };
    const auto root = [p](const Tensor& x) { return pow(x, 1 / p); };
    // Infinite at 0 are, below 1, the slope of the power; up to 2 its curvature; above 1 the slope
    // of the root.
    const double at_zero = p > 0 ? 0 : std::numeric_limits<double>::infinity();
    const Tensor powers = p < 2 ? flat_at_zero(abs(self), at_zero, power) : power(abs(self));
    const Tensor total = sum(powers, dim, keepdim);
    return p > 1 ? flat_at_zero(total, 0, root) : root(total);
  });
}

namespace ops {

CompositeDef define_norm() {
  return {
      .signature = "norm(Tensor self, float p=2, int[] dim=[], bool keepdim=False) -> Tensor",
      .doc =
          "(sum of |self|^p)^(1/p) over the given dimensions (none given: all); the greatest or "
          "least magnitude for p = inf or -inf, the number of nonzeros for p = 0; 0 of "
          "nothing. The gradient at 0 is 0.  self: [*] floating -> [*] without dim, or with dim of "
          "size 1 (keepdim).",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4})});
            s.add({s.normal({3, 4}), 1.0, Dims{1}});
            s.add({s.normal({3, 4}), 3.0, Dims{0}, true});
            s.add({s.normal({3, 4}), 1.5});
            s.add({s.normal({3, 4}), std::numeric_limits<double>::infinity(), Dims{1}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.integers({3}, 0, 5)}, "not supported");
            e.fails({e.normal({3}), 2.0, Dims{1}}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
