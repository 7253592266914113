#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula {

Tensor sub(const Tensor& self, const Tensor& other, Scalar alpha) {
  const bool floating = self.is_floating_point() || other.is_floating_point();
  check<DTypeError>(floating || !alpha.is_floating(),
                    "sub: alpha is {}, but {} and {} tensors take an integer; convert one of them "
                    "with to(kFloat32)",
                    alpha, name_of(self.dtype()), name_of(other.dtype()));
  return self - other * alpha;
}

namespace ops {

CompositeDef define_sub_alpha() {
  return {
      .signature = "sub.alpha(Tensor self, Tensor other, Scalar alpha) -> Tensor",
      .doc = "self - alpha * other with broadcasting and type promotion.  self, other: [*] -> [*].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({3, 4}), 0.5});
            s.add({s.normal({3, 4}), s.normal({4}), -2});
            s.add({s.integers({5}, -9, 9), s.integers({5}, -9, 9), 3});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), e.normal({2}), 1}, "broadcast");
            e.fails({e.integers({3}, 0, 5), e.integers({3}, 0, 5), 1.5}, "take an integer");
          },
  };
}

}  // namespace ops
}  // namespace facula
