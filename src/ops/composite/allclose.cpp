#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"
#include "ops/schema/shape.h"

namespace facula {

bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  check_operands({self, other}, "allclose");
  check<DTypeError>(self.dtype() == other.dtype(),
                    "allclose: the tensors are {} and {}; convert one with to()",
                    name_of(self.dtype()), name_of(other.dtype()));
  check<ValueError>(rtol >= 0 && atol >= 0,
                    "allclose: the tolerances {} and {} must not be negative", rtol, atol);
  check<DeviceError>(!self.device().is_null(),
                     "allclose: the result for tensors on the null device is unknown");
  broadcast_sizes(self.sizes(), other.sizes(), "allclose");
  // Unsigned differences would wrap.
  const Tensor a = self.is_floating_point() ? self.detach() : self.to(kFloat64);
  const Tensor b = other.is_floating_point() ? other.detach() : other.to(kFloat64);
  const Tensor difference = abs(a - b);
  Tensor close = (a == b) | (isfinite(difference) & (difference <= abs(b) * rtol + atol));
  if (equal_nan) close = close | (isnan(a) & isnan(b));
  return all(close).item<bool>();
}

namespace ops {

CompositeDef define_allclose() {
  return {
      .signature =
          "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, "
          "bool equal_nan=False) -> bool",
      .doc =
          "True if |self - other| <= atol + rtol * |other| everywhere, with broadcasting; "
          "infinities must be equal.  self, other: [*] of one dtype -> bool.",
      .samples =
          [](Samples& s) {
            const double inf = std::numeric_limits<double>::infinity();
            const double nan = std::numeric_limits<double>::quiet_NaN();
            const Tensor x = s.normal({3, 4});
            s.add({x, x * 1.000001});
            s.add({x, x * 1.001});
            s.add({x, x + 0.01, 0.0, 0.1});
            s.add({x, s.normal({4})});
            s.add({tensor({inf, nan}), tensor({inf, nan}), 1e-5, 1e-8, true});
            s.add({tensor({1.0, nan}), tensor({1.0, nan})});
            s.add({tensor({inf}), tensor({-inf})});
            s.add({tensor({7}), tensor({8}), 0.0, 1.0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), e.integers({3}, 0, 5)}, "float32 and int64");
            e.fails({e.normal({3}), e.normal({3}), -1.0}, "negative");
            e.fails({e.normal({3}), e.normal({2})}, "allclose: ");
            const Tensor half = e.normal({3}).to(kFloat16);
            e.fails({half, half}, "allclose: dtype float16 is not supported");
            e.fails({e.normal({3}), Tensor()}, "allclose: an input is an undefined tensor");
          },
  };
}

}  // namespace ops
}  // namespace facula
