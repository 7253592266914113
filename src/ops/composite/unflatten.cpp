#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"
#include "ops/schema/reshape.h"

namespace facula {

Tensor unflatten(const Tensor& self, std::int64_t dim, IntList sizes) {
  check_defined("unflatten", self);
  const int place = wrap_dim(dim, self.dim(), "unflatten");
  check<ShapeError>(self.dim() > 0, "unflatten: a 0-d tensor has no dimension to divide");
  return in_call("unflatten", {&self}, [&] {
    const Dims parts = resolve_sizes(sizes, self.sizes()[place], "unflatten");
    Dims result;
    for (int d = 0; d < self.dim(); ++d) {
      if (d != place) {
        result.push_back(self.sizes()[d]);
      } else {
        for (std::int64_t size : parts) result.push_back(size);
      }
    }
    return view(self, result);
  });
}

namespace ops {

CompositeDef define_unflatten() {
  return {
      .signature = "unflatten(Tensor self, int dim, int[] sizes) -> Tensor",
      .doc =
          "View with dimension dim as several of the given sizes; one may be -1.  self: [*, N, *] "
          "-> [*, `sizes`, *].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 6}), 1, Dims{2, 3}});
            s.add({s.normal({6, 2}), 0, Dims{-1, 2}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 6}), 1, Dims{4, -1}}, "do not fill");
            e.fails({e.normal({2, 6}), 1, Dims{4, 2}}, "size [4, 2] needs 8");
          },
  };
}

}  // namespace ops
}  // namespace facula
