#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor max_pool2d(const Tensor& self, IntList kernel_size, IntList stride, IntList padding,
                  IntList dilation, bool ceil_mode) {
  check_defined("max_pool2d", self);
  return std::get<0>(
      max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode));
}

namespace ops {

CompositeDef define_max_pool2d() {
  return {
      .signature =
          "max_pool2d(Tensor self, int[] kernel_size, int[] stride=[], int[] padding=[0], "
          "int[] dilation=[1], bool ceil_mode=False) -> Tensor",
      .doc =
          "Maxima of sliding windows; stride defaults to the kernel size.  self: [N, C, H, W] "
          "floating -> [N, C, oH, oW].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 6, 6}), Dims{2}});
            s.add({s.normal({2, 3, 7, 5}), Dims{3}, Dims{2}, Dims{1}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3, 4, 4}), Dims{5}}, "too small");
          },
  };
}

}  // namespace ops
}  // namespace facula
