#include <facula/ops.h>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

std::vector<Tensor> split_with_sizes(const Tensor& self, IntList split_sizes, std::int64_t dim) {
  check_defined("split_with_sizes", self);
  return in_call("split_with_sizes", {&self}, [&] {
    std::vector<Tensor> parts;
    std::int64_t begin = 0;
    for (std::int64_t size : split_sizes) {
      parts.push_back(narrow(self, dim, begin, size));
      begin += size;
    }
    check<ValueError>(begin == self.size(dim),
                      "split_with_sizes: sizes {} add up to {}, dimension {} has {} entries",
                      split_sizes, begin, dim, self.size(dim));
    return parts;
  });
}

namespace ops {

CompositeDef define_split_with_sizes() {
  return {
      .signature = "split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
      .doc =
          "Views of consecutive parts of dimension dim, of the given sizes.  self: [*] -> list of "
          "[*], parts of dim.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({5, 2}), Dims{2, 3}});
            s.add({s.normal({2, 6}), Dims{1, 0, 5}, -1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({5}), Dims{2, 2}}, "add up to 4");
            e.fails({e.normal({5}), Dims{2, 4}}, "exceed");
          },
  };
}

}  // namespace ops
}  // namespace facula
