#include <facula/ops.h>

#include "ops/schema/op_def.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const Tensor& a = c.in(0);
  const Tensor& b = c.in(1);
  check<ShapeError>(a.dim() == 2 && b.dim() == 2,
                    "mm: sizes are {} and {}, expected two matrices; use matmul for other ranks",
                    a.sizes(), b.sizes());
  check<ShapeError>(
      a.sizes()[1] == b.sizes()[0],
      "mm: a matrix of size {} cannot be multiplied by one of size {}; the columns of "
      "the first must equal the rows of the second",
      a.sizes(), b.sizes());
  check<DTypeError>(a.dtype() == b.dtype() && kNumericTypes.contains(a.dtype()),
                    "mm: dtypes are {} and {}, expected two equal ones of float32, float64 or "
                    "integers; convert with to()",
                    name_of(a.dtype()), name_of(b.dtype()));
  c.out(a.dtype(), {a.sizes()[0], b.sizes()[1]});
}

}  // namespace

OpDef define_mm() {
  return {
      .signature = "mm(Tensor self, Tensor mat2) -> Tensor",
      .doc = "Matrix product.  self: [M, K], mat2: [K, N], same dtype -> [M, N].",
      .infer = infer,
      .gradient =
          [](GradientContext& g) {
            if (g.needs(0)) g.set(0, mm(g.grad(), permute(g.input(1), {1, 0})));
            if (g.needs(1)) g.set(1, mm(permute(g.input(0), {1, 0}), g.grad()));
          },
      .saves = {input(0).for_grad_of(1), input(1).for_grad_of(0)},
      .autocast = Autocast::lower,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({4, 5})});
            s.add({s.normal({4, 3}).permute({1, 0}), s.normal({5, 4}).permute({1, 0})});
            s.add({s.normal({1, 7}), s.normal({7, 1})});
            s.add({s.normal({2, 0}), s.normal({0, 3})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({2, 3}), e.normal({2, 3})}, "cannot be multiplied");
            e.fails({e.normal({3}), e.normal({3, 2})}, "expected two matrices");
            e.fails({e.normal({2, 3}), e.integers({3, 2}, 0, 5)}, "dtypes");
          },
  };
}

}  // namespace facula::ops
