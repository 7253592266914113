#include "ops/attrs/roll.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/channels.h"
#include "ops/schema/op_def.h"

namespace facula::ops {

OpDef define_roll() {
  return {
      .signature = "roll(Tensor self, int[] shifts, int[] dims=[]) -> Tensor",
      .doc =
          "Entries moved by `shifts` places along dims, those that leave coming in at the other "
          "end; without dims the flattened tensor is rolled.  self: [*] -> [*].",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const auto& [shifts, dims] = c.attrs<roll_attrs>();
            if (dims.empty()) {
              check<ValueError>(shifts.size() == 1,
                                "roll: {} shifts without dims; name the dimensions", shifts.size());
            } else {
              check<ValueError>(shifts.size() == dims.size(),
                                "roll: shifts {} and dims {} must be equally long", shifts, dims);
              check<IndexError>(self.dim() > 0,
                                "roll: a 0-d tensor has no dimension {}; leave out dims", dims[0]);
            }
            for (std::int64_t d : dims) wrap_dim(d, self.dim(), "roll");
            c.out(self.dtype(), self.sizes(),
                  dims.empty() ? MemoryFormat::contiguous : channel_format(self));
          },
      .gradient =
          [](GradientContext& g) {
            const auto& [shifts, dims] = g.attrs<roll_attrs>();
            Dims back = shifts;
            for (std::int64_t& shift : back) shift = -shift;
            g.set(0, roll(g.grad(), back, dims));
          },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5}), Dims{2}, Dims{0}});
            s.add({s.normal({3, 4}), Dims{-1, 5}, Dims{0, 1}});
            s.add({s.normal({2, 3}), Dims{1}});
            s.add({s.normal({4, 3}), Dims{1, 2}, Dims{0, 0}});
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

}  // namespace facula::ops
