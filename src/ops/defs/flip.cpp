#include "ops/attrs/flip.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/channels.h"
#include "ops/schema/op_def.h"

namespace facula::ops {

OpDef define_flip() {
  return {
      .signature = "flip(Tensor self, int[] dims) -> Tensor",
      .doc =
          "A copy with the order of the entries of the given dimensions reversed.  self: [*] -> "
          "[*].",
      .infer =
          [](Infer& c) {
            const Tensor& self = c.in(0);
            const Dims& dims = c.attrs<flip_attrs>().dims;
            unsigned seen = 0;
            for (std::int64_t d : dims) {
              const unsigned bit = 1u << wrap_dim(d, self.dim(), "flip");
              check<ValueError>(!(seen & bit), "flip: {} names a dimension twice; list each once",
                                dims);
              seen |= bit;
            }
            c.out(self.dtype(), self.sizes(), channel_format(self));
          },
      .gradient = [](GradientContext& g) { g.set(0, flip(g.grad(), g.attrs<flip_attrs>().dims)); },
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5}), Dims{0}});
            s.add({s.normal({2, 3, 4}), Dims{0, -1}});
            s.add({s.normal({2, 3}), Dims{}});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), Dims{0, -2}}, "twice");
            e.fails({e.normal({2, 3}), Dims{2}}, "out of range");
          },
  };
}

}  // namespace facula::ops
