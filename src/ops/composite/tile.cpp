#include <facula/ops.h>

#include <algorithm>

#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor tile(const Tensor& self, IntList dims) {
  check_defined("tile", self);
  return in_call("tile", {&self}, [&] {
    Dims repeats = Dims::filled(std::max(0, self.dim() - static_cast<int>(dims.size())), 1);
    for (std::int64_t count : dims) repeats.push_back(count);
    return repeat(self, repeats);
  });
}

namespace ops {

CompositeDef define_tile() {
  return {
      .signature = "tile(Tensor self, int[] dims) -> Tensor",
      .doc =
          "repeat, with leading ones added to dims where the tensor has more dimensions.  self: "
          "[*] -> [*], its sizes times dims.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3}), Dims{2}});
            s.add({s.normal({3}), Dims{2, 2}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), Dims{-1}}, "negative entry");
          },
  };
}

}  // namespace ops
}  // namespace facula
