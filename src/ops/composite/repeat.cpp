#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor repeat(const Tensor& self, IntList repeats) {
  check_defined("repeat", self);
  const int rank = static_cast<int>(repeats.size());
  check<ShapeError>(rank >= self.dim(),
                    "repeat: {} names fewer dimensions than the tensor of size {} has", repeats,
                    self.sizes());
  return in_call("repeat", {&self}, [&] {
    Dims sizes = Dims::filled(rank - self.dim(), 1);
    for (std::int64_t size : self.sizes()) sizes.push_back(size);
    Tensor result = reshape(self, sizes);
    for (int d = 0; d < rank; ++d) {
      check<ValueError>(repeats[d] >= 0, "repeat: {} has a negative entry", repeats);
      if (repeats[d] == 1) continue;
      Dims repeated(result.sizes());
      repeated.insert(d, repeats[d]);
      Dims merged(result.sizes());
      check<ShapeError>(!__builtin_mul_overflow(merged[d], repeats[d], &merged[d]),
                        "repeat: {} times size {} exceeds 2^63 elements", repeats, self.sizes());
      result = reshape(expand(unsqueeze(result, d), repeated), merged);
    }
    // Whatever was repeated last may still be expanded.
    const bool is_view = result.impl()->storage == self.impl()->storage || !result.is_contiguous();
    return is_view ? to_copy(result, std::nullopt, "contiguous") : result;
  });
}

namespace ops {

CompositeDef define_repeat() {
  return {
      .signature = "repeat(Tensor self, int[] repeats) -> Tensor",
      .doc =
          "A copy in which dimension d comes repeats[d] times; further leading repeats add "
          "dimensions. At most 7 dimensions.  self: [*] -> [*], its sizes times repeats.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3}), Dims{2, 1}});
            s.add({s.normal({3}), Dims{2, 2}});
            s.add({s.normal({2}), Dims{0}});
            s.add({s.normal({2}), Dims{1}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{2}}, "fewer dimensions");
            e.fails({e.normal({2}), Dims{-1}}, "negative entry");
          },
  };
}

}  // namespace ops
}  // namespace facula
