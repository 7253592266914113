#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor logsumexp(const Tensor& self, IntList dim, bool keepdim) {
  check_reduces(self, dim, "logsumexp");
  // Before numbers are subtracted, which wraps in small integers.
  const Tensor x = self.is_floating_point() ? self : self.to(get_default_dtype());
  const Tensor greatest = amax(x, dim, true).detach();
  const Tensor shift = where(isinf(greatest), 0, greatest);
  const Tensor total = log(sum(exp(x - shift), dim, keepdim));
  return total + reshape(shift, total.sizes());
}

namespace ops {

CompositeDef define_logsumexp() {
  return {
      .signature = "logsumexp(Tensor self, int[] dim, bool keepdim=False) -> Tensor",
      .doc =
          "log of the sum of exp(self) over the given dimensions (none given: all), "
          "without overflow.  self: [*] floating.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({7}), Dims{0}});
            s.add({s.normal({3, 4, 5}), Dims{1}});
            s.add({s.normal({3, 4, 5}), Dims{0, -1}, true});
            s.add({tensor({-200, 50, 100, 90}, {2, 2}, kFloat32), Dims{0}});
            s.add({tensor({3, 97, 2, 200}, {2, 2}, kUInt8), Dims{1}});
            s.add({tensor({-2000000000, 2000000000}, {2}, kInt32), Dims{0}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{2}}, "logsumexp: dimension 2 is out of range");
            e.fails({e.normal({2, 0}), Dims{1}}, "no elements to reduce");
          },
  };
}

}  // namespace ops
}  // namespace facula
