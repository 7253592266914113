#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula {

Tensor roll(const Tensor& self, IntList shifts, IntList dims) {
  if (dims.empty()) {
    check<ValueError>(shifts.size() == 1, "roll: {} shifts without dims; name the dimensions",
                      shifts.size());
    return reshape(roll(flatten(self), shifts, 0), self.sizes());
  }
  check<ValueError>(shifts.size() == dims.size(),
                    "roll: shifts {} and dims {} must be equally long", shifts, dims);
  Tensor result = self;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t size = result.size(dims[i]);
    const std::int64_t shift = size == 0 ? 0 : ((shifts[i] % size) + size) % size;
    if (shift == 0) continue;
    result = cat({slice(result, dims[i], size - shift), slice(result, dims[i], 0, size - shift)},
                 dims[i]);
  }
  return result;
}

namespace ops {

CompositeDef define_roll() {
  return {
      .signature = "roll(Tensor self, int[] shifts, int[] dims=[]) -> Tensor",
      .doc =
          "Entries moved by `shifts` places along dims, those that leave coming in at the "
          "other end; without dims the flattened tensor is rolled.",
      .samples =
          [](Samples& s) {
            s.add({s.normal({5}), Dims{2}, Dims{0}});
            s.add({s.normal({3, 4}), Dims{-1, 5}, Dims{0, 1}});
            s.add({s.normal({2, 3}), Dims{1}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3}), Dims{1, 2}, Dims{0}}, "equally long");
            e.fails({e.normal({3}), Dims{1, 2}}, "name the dimensions");
            e.fails({e.normal({3}), Dims{1}, Dims{1}}, "out of range");
          },
  };
}

}  // namespace ops
}  // namespace facula
