#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {
namespace {

/// self where `inside`, NaN without a gradient where that is NaN, else the bound.
Tensor bounded(const Tensor& self, const Tensor& inside, const Tensor& bound) {
  return where(inside, self, where(isnan(self), self.detach(), bound));
}

}  // namespace

Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max) {
  check_defined("clamp", self);
  common_device("clamp", {&self, &min, &max});
  check<ValueError>(min.defined() || max.defined(), "clamp: give min, max or both");
  return in_call("clamp", {&self, &min, &max}, [&] {
    const Tensor low = min.defined() ? bounded(self, self >= min, min) : self;
    return max.defined() ? bounded(low, low <= max, max) : low;
  });
}

namespace ops {

CompositeDef define_clamp_tensor() {
  return {
      .signature = "clamp.tensor(Tensor self, Tensor? min, Tensor? max=None) -> Tensor",
      .doc =
          "self limited to [min, max], which broadcast with it; NaN, also of a bound, stays. Where "
          "min > max the result is max.  self, min, max: [*] -> [*].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.uniform({4}, -1, 0), s.uniform({3, 1}, 0, 1)});
            s.add({s.normal({5}), s.normal({5})});
            s.add({s.normal({5}), NoneType{}, s.normal({5})});
            s.add({s.normal({3}), s.uniform({3}, 1, 2), s.uniform({3}, 0, 1)});
            s.add({s.integers({5}, -9, 9), tensor(1.5), tensor(3)});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), NoneType{}}, "min, max or both");
            e.fails({e.normal({3}), e.normal({2})}, "broadcast");
          },
  };
}

}  // namespace ops
}  // namespace facula
