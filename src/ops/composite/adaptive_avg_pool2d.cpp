#include <facula/ops.h>

#include "base/check.h"
#include "ops/schema/glue.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"
#include "ops/schema/uneven_pool.h"

namespace facula {

Tensor adaptive_avg_pool2d(const Tensor& self, IntList output_size) {
  check<ValueError>(self.defined(), "adaptive_avg_pool2d: the input is an undefined tensor");
  check<ShapeError>(self.dim() == 4, "adaptive_avg_pool2d: input of size {}, expected [N, C, H, W]",
                    self.sizes());
  const Dims wanted = expand_list(output_size, 2, "adaptive_avg_pool2d", "output_size");
  for (std::int64_t size : wanted) {
    check<ValueError>(size > 0, "adaptive_avg_pool2d: output size {} must be positive", wanted);
  }
  const std::int64_t height = self.size(2), width = self.size(3);
  check<ShapeError>(height > 0 && width > 0,
                    "adaptive_avg_pool2d: an input of size {} has no elements to average",
                    self.sizes());
  const bool even = height % wanted[0] == 0 && width % wanted[1] == 0;
  for (std::int64_t size : wanted) {
    check<ValueError>(
        even || size <= kMostAdaptiveWindows,
        "adaptive_avg_pool2d: output size {} does not divide the input of size {} and "
        "exceeds {}; use a smaller one",
        wanted, self.sizes(), kMostAdaptiveWindows);
  }
  return in_call("adaptive_avg_pool2d", {&self}, [&] {
    if (even) return avg_pool2d(self, {height / wanted[0], width / wanted[1]});
    return uneven_avg_pool2d(self, wanted);
  });
}

namespace ops {

CompositeDef define_adaptive_avg_pool2d() {
  return {
      .signature = "adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor",
      .doc =
          "Means over an even grid of windows, as many as output_size says.  self: [N, C, H, W] "
          "floating -> [N, C, oH, oW].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 20, 4, 6}), Dims{1}});
            s.add({s.normal({2, 3, 4, 6}), Dims{2, 3}});
            s.add({s.normal({2, 3, 5, 7}), Dims{3, 2}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3, 4, 4}), Dims{1}}, "expected [N, C, H, W]");
            e.fails({e.normal({2, 3, 4, 4}), Dims{0}}, "must be positive");
            e.fails({e.normal({2, 3, 4, 4}), Dims{std::int64_t{1} << 40}}, "use a smaller one");
          },
  };
}

}  // namespace ops
}  // namespace facula
