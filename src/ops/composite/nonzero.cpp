#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor nonzero(const Tensor& self) {
  check_defined("nonzero", self);
  check<DeviceError>(!self.device().is_null(),
                     "nonzero: the number of results on the null device is unknown");
  const Tensor mask =
      in_call("nonzero", {&self}, [&] { return (self.detach() != 0).cpu().contiguous(); });
  const bool* hits = mask.data_ptr<bool>();
  const Tensor places = new_tensor({sum(mask).item<std::int64_t>(), self.dim()}, kInt64, kCPU);
  auto* place = places.impl()->typed<std::int64_t>() + places.numel();
  // From the last element to the first, so that the digits of a place come in the order of
  // division.
  for (std::int64_t i = mask.numel(); i-- > 0;) {
    if (!hits[i]) continue;
    std::int64_t rest = i;
    for (int d = self.dim(); d-- > 0; rest /= self.sizes()[d]) *--place = rest % self.sizes()[d];
  }
  return places.to(self.device());
}

namespace ops {

CompositeDef define_nonzero() {
  return {
      .signature = "nonzero(Tensor self) -> Tensor",
      .doc =
          "The indices of all elements other than 0, in row-major order.  self: [*] -> int64 "
          "[N, dim].",
      .samples =
          [](Samples& s) {
            s.add({s.mask({3, 4})});
            s.add({s.integers({2, 3, 4}, 0, 3)});
            s.add({tensor({0.0, 1.5, std::numeric_limits<double>::quiet_NaN(), -0.0})});
            s.add({tensor(3)});
            s.add({tensor({0, 0})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({Tensor()}, "undefined");
            e.fails({e.normal({2}).to(kFloat16)}, "not supported");
          },
  };
}

}  // namespace ops
}  // namespace facula
