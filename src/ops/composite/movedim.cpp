#include <facula/ops.h>

#include <algorithm>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor movedim(const Tensor& self, IntList source, IntList destination) {
  check_defined("movedim", self);
  // A number's dimensions are named as a vector's.
  const int rank = std::max(self.dim(), 1);
  check<ValueError>(source.size() == destination.size(),
                    "movedim: source {} and destination {} must be equally long", source,
                    destination);
  Dims order = Dims::filled(rank, -1);
  unsigned moved = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const int from = wrap_dim(source[i], rank, "movedim");
    const int to = wrap_dim(destination[i], rank, "movedim");
    check<ValueError>(!(moved >> from & 1) && order[to] < 0,
                      "movedim: source {} or destination {} names a dimension twice; list each "
                      "once",
                      source, destination);
    moved |= 1u << from;
    order[to] = from;
  }
  int next = 0;
  for (std::int64_t& place : order) {
    if (place >= 0) continue;
    while (moved >> next & 1) ++next;
    place = next++;
  }
  return self.dim() == 0 ? self : permute(self, order);
}

namespace ops {

CompositeDef define_movedim() {
  return {
      .signature = "movedim(Tensor self, int[] source, int[] destination) -> Tensor",
      .doc =
          "View with the source dimensions moved to the destination places; the others keep their "
          "order.  self: [*] -> [*] in the new order.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 4}), Dims{0}, Dims{-1}});
            s.add({s.normal({2, 3, 4, 5}), Dims{3, 1}, Dims{0, 1}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{0, 0}, Dims{0, 1}}, "twice");
            e.fails({e.normal({2, 3}), Dims{0}, Dims{0, 1}}, "equally long");
            e.fails({e.normal({}), Dims{-5}, Dims{7}}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
