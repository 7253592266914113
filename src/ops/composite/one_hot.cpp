#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor one_hot(const Tensor& self, std::int64_t num_classes) {
  check_defined("one_hot", self);
  check<DTypeError>(self.dtype() == kInt64, "one_hot: classes have dtype {}, expected int64",
                    name_of(self.dtype()));
  check<ValueError>(num_classes > 0 || (num_classes == -1 && self.numel() > 0),
                    "one_hot: num_classes is {}, must be positive, or -1 for a tensor with "
                    "elements",
                    num_classes);
  check<DeviceError>(num_classes > 0 || !self.device().is_null(),
                     "one_hot: the greatest class on the null device is unknown; give num_classes");
  if (self.numel() > 0 && !self.device().is_null()) {
    const auto least = amin(self).item<std::int64_t>(), greatest = amax(self).item<std::int64_t>();
    check<IndexError>(least >= 0,
                      "one_hot: class {} is negative; correct the data, for classes count from 0",
                      least);
    check<IndexError>(num_classes == -1 || greatest < num_classes,
                      "one_hot: class {} is outside [0, {}); correct the data, or raise "
                      "num_classes",
                      greatest, num_classes);
    if (num_classes == -1) num_classes = greatest + 1;
  }
  return in_call("one_hot", {&self}, [&] {
    const Tensor index = unsqueeze(self, -1);
    Dims sizes = self.sizes();
    sizes.push_back(num_classes);
    const Tensor result = zeros(sizes, {kInt64, self.device()});
    return result.scatter_(-1, index, ones({}, {kInt64, self.device()}).expand(index.sizes()));
  });
}

namespace ops {

CompositeDef define_one_hot() {
  return {
      .signature = "one_hot(Tensor self, int num_classes=-1) -> Tensor",
      .doc =
          "int64 vectors with a 1 at the place that self names; num_classes -1: the "
          "greatest class + 1.  self: [*] int64 -> [*, num_classes].",
      .samples =
          [](Samples& s) {
            s.add({s.integers({4}, 0, 3), 5});
            s.add({s.integers({2, 3}, 0, 4)});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({tensor({0, 4}, {2}, kInt64), 4}, "class 4 is outside [0, 4)");
            e.fails({tensor({-1, 2}, {2}, kInt64)}, "class -1 is negative");
            e.fails({tensor({}, {0}, kInt64)}, "or -1 for a tensor with elements");
            e.fails({e.normal({3}), 2}, "expected int64");
            e.fails({e.integers({3}, 0, 2), 0}, "must be positive");
          },
  };
}

}  // namespace ops
}  // namespace facula
