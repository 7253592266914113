#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const IntList a = c.in(0).sizes(), b = c.in(1).sizes();
  check<ShapeError>(a.size() == 3 && b.size() == 3 && a[0] == b[0] && a[2] == b[1],
                    "bmm: sizes are {} and {}, expected [B, M, K] and [B, K, N]", a, b);
  check<DTypeError>(c.in(0).dtype() == c.in(1).dtype() && kNumericTypes.contains(c.in(0).dtype()),
                    "bmm: dtypes are {} and {}, expected two equal ones of float32, float64 or "
                    "integers; convert with to()",
                    name_of(c.in(0).dtype()), name_of(c.in(1).dtype()));
  c.out(c.in(0).dtype(), {a[0], a[1], b[2]});
}

}  // namespace

OpDef define_bmm() {
  return {
      .signature = "bmm(Tensor self, Tensor mat2) -> Tensor",
      .doc = "Products of corresponding matrices.  self: [B, M, K], mat2: [B, K, N] -> [B, M, N].",
      .infer = infer,
      .gradient =
          [](GradientContext& g) {
            if (g.needs(0)) g.set(0, bmm(g.grad(), permute(g.input(1), {0, 2, 1})));
            if (g.needs(1)) g.set(1, bmm(permute(g.input(0), {0, 2, 1}), g.grad()));
          },
      .saves = {input(0).for_grad_of(1), input(1).for_grad_of(0)},
      .autocast = Autocast::lower,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({2, 3, 4}), s.normal({2, 4, 5})});
            s.add({s.normal({2, 4, 3}).permute({0, 2, 1}), s.normal({4, 2, 5}).permute({1, 0, 2})});
            s.add({s.normal({0, 3, 4}), s.normal({0, 4, 2})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3, 4}), e.normal({3, 4, 5})}, "expected [B, M, K]");
            e.fails({e.normal({3, 4}), e.normal({4, 5})}, "expected [B, M, K]");
          },
  };
}

}  // namespace facula::ops
