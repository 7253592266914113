#include "ops/schema/softmax.h"

#include <facula/ops.h>

#include "ops/attrs/softmax.h"

namespace facula::ops {

OpDef define_softmax() {
  return {
      .signature = "softmax(Tensor self, int dim) -> Tensor",
      .doc = "exp(x) / sum(exp(x)) along dim.  self: [*] floating -> [*].",
      .infer = [](Infer& c) { infer_softmax(c, c.attrs<softmax_attrs>().dim); },
      .gradient =
          [](GradientContext& g) {
            const std::int64_t dim = g.attrs<softmax_attrs>().dim;
            g.set(0, softmax_backward(g.grad(), g.output(0), dim));
          },
      .saves = {output(0)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({5}), 0});
            s.add({s.normal({3, 37}), 1});
            s.add({s.normal({3, 4, 2}), 1});
            s.add({s.normal({2, 3, 4, 5}), -3});
            s.add({s.uniform({2, 5}, 500, 900), -1});
            s.add({s.normal({}), 0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), 2}, "out of range");
            e.fails({e.integers({2, 3}, 0, 5), 1}, "not supported");
            e.fails({Tensor(), 0}, "undefined");
          },
  };
}

}  // namespace facula::ops
