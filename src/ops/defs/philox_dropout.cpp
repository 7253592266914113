#include "ops/attrs/philox_dropout.h"

#include <facula/ops.h>

#include "core/tensor_impl.h"
#include "ops/schema/op_def.h"
#include "ops/schema/random.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const double p = c.attrs<philox_dropout_attrs>().p;
  const Tensor& self = c.in(0);
  check<ValueError>(self.defined(), "dropout: the input is an undefined tensor");
  check<DTypeError>(kFloatingTypes.contains(self.dtype()),
                    "dropout: dtype {} is not supported; convert it with to(kFloat32)",
                    name_of(self.dtype()));
  check<ValueError>(p >= 0 && p <= 1, "dropout: the probability {} is outside [0, 1]", p);
  check_random_state(c.in(1), "dropout");
  if (is_dense(*self.impl())) return c.out_strided(self.dtype(), self.sizes(), self.strides());
  c.out(self.dtype(), self.sizes());
}

}  // namespace

OpDef define_philox_dropout() {
  return {
      .signature = "philox_dropout(Tensor self, Tensor state, float p) -> Tensor",
      .doc =
          "Zeroes elements with probability p and scales the rest by 1 / (1 - p); which, the "
          "random stream at state decides by logical index.  self: [*] floating, state: [2] int64 "
          "-> [*].",
      .infer = infer,
      .gradient =
          [](GradientContext& g) {
            const double p = g.attrs<philox_dropout_attrs>().p;
            g.set(0, philox_dropout(g.grad(), g.input(1), p));
          },
      .saves = {input(1)},
      .autocast = Autocast::promote,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::consumes_stream,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            const Tensor state = tensor({11, 5}, {2}, kInt64);
            s.add({s.normal({4, 33}), state, 0.5});
            s.add({s.normal({2, 3, 4, 5}), state, 0.25});
            s.add({s.normal({7}), state, 0.0});
            s.add({s.normal({7}), state, 1.0});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2}), tensor({1, 2}, {2}, kInt64), 1.5}, "outside [0, 1]");
            e.fails({e.normal({2}), e.normal({2}), 0.5}, "random state");
          },
  };
}

}  // namespace facula::ops
