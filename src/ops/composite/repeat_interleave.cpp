#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor repeat_interleave(const Tensor& self, std::int64_t repeats,
                         std::optional<std::int64_t> dim) {
  check_defined("repeat_interleave", self);
  check<ValueError>(repeats >= 0, "repeat_interleave: repeats is {}, must not be negative",
                    repeats);
  if (!dim) return repeat_interleave(flatten(self), repeats, 0);
  const Tensor source = self.dim() == 0 ? reshape(self, 1) : self;
  const int place = wrap_dim(*dim, source.dim(), "repeat_interleave");
  Dims repeated(source.sizes());
  repeated.insert(place + 1, repeats);
  Dims merged(source.sizes());
  check<ShapeError>(!__builtin_mul_overflow(merged[place], repeats, &merged[place]),
                    "repeat_interleave: {} times size {} exceeds 2^63 elements", repeats,
                    self.sizes());
  const Tensor result = reshape(expand(unsqueeze(source, place + 1), repeated), merged);
  // A view where nothing is repeated, or a single entry.
  return result.impl()->storage == self.impl()->storage ? clone(result) : result;
}

namespace ops {

CompositeDef define_repeat_interleave() {
  return {
      .signature = "repeat_interleave(Tensor self, int repeats, int? dim=None) -> Tensor",
      .doc =
          "A copy in which every entry of dimension dim comes `repeats` times in a row; without "
          "dim, every element of the flattened tensor.  self: [*] -> [*] with dim `repeats` times "
          "as long (without dim: [N]); at most 7 dimensions.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3}), 2, 1});
            s.add({s.normal({2, 3}), 3});
            s.add({s.normal({2, 3}), 2, 0});
            s.add({s.normal({1, 3}), 4, 0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), -1}, "must not be negative");
          },
  };
}

}  // namespace ops
}  // namespace facula
