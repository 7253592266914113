#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/channels.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {

Tensor roll(const Tensor& self, IntList shifts, IntList dims) {
  check_defined("roll", self);
  if (dims.empty()) {
    check<ValueError>(shifts.size() == 1, "roll: {} shifts without dims; name the dimensions",
                      shifts.size());
    return reshape(roll(flatten(self), shifts, 0), self.sizes());
  }
  check<ValueError>(shifts.size() == dims.size(),
                    "roll: shifts {} and dims {} must be equally long", shifts, dims);
  Tensor result = self;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int dim = wrap_dim(dims[i], self.dim(), "roll");
    check<IndexError>(self.dim() > 0, "roll: a 0-d tensor has no dimension {}; leave out dims",
                      dims[i]);
    const std::int64_t size = self.sizes()[dim];
    const std::int64_t shift = size == 0 ? 0 : ((shifts[i] % size) + size) % size;
    if (shift == 0) continue;
    result = cat({slice(result, dim, size - shift), slice(result, dim, 0, size - shift)}, dim);
  }
  if (result.is_same(self)) return clone(self);
  // The parts, which have gaps, do not tell the layout.
  const bool lost = is_channels_last(self) && !is_channels_last(result);
  return lost ? to_copy(result, std::nullopt, "channels_last") : result;
}

namespace ops {

CompositeDef define_roll() {
  return {
      .signature = "roll(Tensor self, int[] shifts, int[] dims=[]) -> Tensor",
      .doc =
          "Entries moved by `shifts` places along dims, those that leave coming in at the other "
          "end; without dims the flattened tensor is rolled.  self: [*] -> [*].",
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
            e.fails({e.normal({3}), Dims{1}, Dims{1}}, "roll: dimension 1 is out of range");
            e.fails({e.normal({}), Dims{1}, Dims{0}}, "leave out dims");
          },
  };
}

}  // namespace ops
}  // namespace facula
