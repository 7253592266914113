#include <facula/ops.h>

#include "ops/schema/op_def.h"
#include "ops/schema/shape.h"

namespace facula::ops {

OpDef define_write_() {
  return {
      .signature = "write_(Tensor destination, Tensor source) -> ()",
      .doc =
          "Copies source, broadcast and converted, into the elements of destination.  destination: "
          "[*], source: broadcastable to [*] -> none.",
      .infer =
          [](Infer& c) {
            const IntList sizes = c.in(0).sizes();
            check<ShapeError>(broadcast_sizes(sizes, c.in(1).sizes(), "copy_") == Dims(sizes),
                              "copy_: a source of size {} does not broadcast to the destination's "
                              "size {}",
                              c.in(1).sizes(), sizes);
          },
      .gradient = not_differentiable("Tensor::copy_ records the copy of the source instead"),
      .saves = kSavesNothing,
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::writes(1),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3}), s.normal({3})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), e.normal({3})}, "broadcast");
            e.fails({e.normal({3}), e.normal({2, 3})}, "does not broadcast");
          },
  };
}

}  // namespace facula::ops
