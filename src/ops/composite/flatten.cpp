#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor flatten(const Tensor& self, std::int64_t start_dim, std::int64_t end_dim) {
  check_defined("flatten", self);
  const int first = wrap_dim(start_dim, self.dim(), "flatten");
  const int last = wrap_dim(end_dim, self.dim(), "flatten");
  check<ValueError>(first <= last, "flatten: start_dim {} comes after end_dim {}", start_dim,
                    end_dim);
  if (self.dim() == 0) return reshape(self, 1);
  Dims sizes;
  for (int d = 0; d < self.dim(); ++d) {
    if (d > first && d <= last) {
      sizes.back() *= self.sizes()[d];
    } else {
      sizes.push_back(self.sizes()[d]);
    }
  }
  return reshape(self, sizes);
}

namespace ops {

CompositeDef define_flatten() {
  return {
      .signature = "flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
      .doc =
          "The dimensions start_dim to end_dim as one: a view where possible, else a copy.  self: "
          "[*, N, ..., M, *] -> [*, N * ... * M, *].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 4})});
            s.add({s.normal({2, 3, 4}), 1});
            s.add({s.normal({2, 3, 4, 2}), 1, -2});
            s.add({s.normal({})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), 1, 0}, "comes after");
            e.fails({e.normal({2, 3}), 2}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
