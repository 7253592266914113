#include <facula/ops.h>

#include "ops/schema/linear.h"

namespace facula::ops {
namespace {

void gradient(GradientContext& g) {
  const bool matrix = g.grad().dim() == 2;
  const Dims sizes = g.input(0).sizes();
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < sizes.size(); ++d) rows *= sizes[d];
  const std::int64_t out = g.grad().sizes()[g.grad().dim() - 1];
  const Tensor grad = matrix ? g.grad() : reshape(g.grad(), {rows, out});
  if (g.needs(0)) {
    const Tensor dx = mm(grad, g.input(1));
    g.set(0, matrix ? dx : reshape(dx, sizes));
  }
  if (g.needs(1)) {
    const Tensor x = g.input(0);
    g.set(1, mm(permute(grad, {1, 0}), matrix ? x : reshape(x, {rows, sizes[sizes.size() - 1]})));
  }
  if (g.needs(2)) g.set(2, sum(grad, {0}));
}

}  // namespace

OpDef define_linear() {
  return {
      .signature = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
      .doc =
          "input * weight^T + bias.  input: [*, in], weight: [out, in], bias: [out] "
          "-> [*, out].",
      .infer = infer_linear,
      .gradient = gradient,
      .saves = {input(0), input(1).for_grad_of(0)},
      .autocast = Autocast::lower,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({3, 4}), s.normal({5, 4}), s.normal({5})});
            s.add({s.normal({2, 3, 4}), s.normal({5, 4})});
            s.add({s.normal({4}), s.normal({2, 4}), s.normal({2})});
            s.add({s.normal({4, 3}).permute({1, 0}), s.normal({4, 5}).permute({1, 0})});
            s.add({s.normal({0, 4}), s.normal({5, 4}), s.normal({5})});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({3, 5}), e.normal({5, 4})}, "needs 4 values");
            e.fails({e.normal({3, 4}), e.normal({5, 4}), e.normal({4})}, "bias has size");
            e.fails({e.normal({3, 4}), e.normal({4})}, "expected [out, in]");
            e.fails({e.integers({3, 4}, 0, 5), e.normal({5, 4})}, "one dtype");
          },
  };
}

}  // namespace facula::ops
