#include "ops/attrs/batch_norm_train.h"

#include <facula/ops.h>

#include "ops/schema/channels.h"

namespace facula::ops {
namespace {

void infer(Infer& c) {
  const Tensor& input = c.in(0);
  const std::int64_t channels = check_channels(input, "batch_norm");
  check_per_channel(c.in(1), "weight", input, "batch_norm");
  check_per_channel(c.in(2), "bias", input, "batch_norm");
  check<ShapeError>(input.numel() == 0 || input.numel() > channels,
                    "batch_norm: one value per channel in an input of size {} has no variance; use "
                    "a larger batch or eval()",
                    input.sizes());
  c.out(input.dtype(), input.sizes(), channel_format(input));
  c.out(input.dtype(), {channels});
  c.out(input.dtype(), {channels});
}

/// The gradient in terms of differentiable ops, statistics included, for higher derivatives.
void composed(GradientContext& g, const Tensor& input, const Tensor& weight) {
  const Dims dims = all_but_channels(input.dim());
  const double count = static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
  const double eps = g.attrs<batch_norm_train_attrs>().eps;
  const Tensor centered = input - sum(input, dims, true) / count;
  const Tensor inverse = rsqrt(sum(centered * centered, dims, true) / count + eps);
  const Tensor normalized = centered * inverse;
  const Tensor grad = g.grad(0).defined() ? g.grad(0) : zeros_like(input);
  if (g.needs(0)) {
    const Tensor scale = weight.defined() ? along_channels(weight, input.dim()) * inverse : inverse;
    const Tensor mean_grad = sum(grad, dims, true) / count;
    const Tensor mean_product = sum(grad * normalized, dims, true) / count;
    Tensor result = scale * (grad - mean_grad - normalized * mean_product);
    // d mean / dx = 1 / count, d inverse / dx = -normalized * inverse^2 / count.
    if (g.grad(1).defined()) result = result + along_channels(g.grad(1), input.dim()) / count;
    if (g.grad(2).defined()) {
      const Tensor per_value = along_channels(g.grad(2), input.dim()) * inverse * inverse / count;
      result = result - normalized * per_value;
    }
    g.set(0, result);
  }
  if (g.needs(1)) g.set(1, sum(grad * normalized, dims));
  if (g.needs(2)) g.set(2, sum(grad, dims));
}

void gradient(GradientContext& g) {
  const Tensor input = g.input(0);
  const Tensor weight = g.has_input(1) ? g.input(1) : Tensor();
  if (g.higher_order() || !g.grad(0).defined() || g.grad(1).defined() || g.grad(2).defined()) {
    return composed(g, input, weight);
  }
  auto [grad_input, grad_weight, grad_bias] =
      batch_norm_backward(g.grad(), input, weight, g.output(1), g.output(2));
  g.set(0, std::move(grad_input));
  if (g.needs(1)) g.set(1, std::move(grad_weight));
  if (g.needs(2)) g.set(2, std::move(grad_bias));
}

}  // namespace

OpDef define_batch_norm_train() {
  return {
      .signature =
          "batch_norm_train(Tensor self, Tensor? weight=None, Tensor? bias=None, "
          "float eps=1e-05) -> (Tensor, Tensor, Tensor)",
      .doc =
          "Normalizes each channel of [N, C, ...] by the batch's own mean and biased variance; "
          "returns the result, the means [C] and 1/sqrt(variance + eps) [C].",
      .infer = infer,
      .gradient = gradient,
      .saves = {input(0), input(1), output(1), output(2)},
      .autocast = Autocast::full,
      .determinism = Determinism::deterministic,
      .random = RandomEffect::none,
      .aliasing = Aliasing::none(),
      .fusion = Fusion::opaque,
      .samples =
          [](Samples& s) {
            s.add({s.normal({6, 3})});
            s.add({s.normal({4, 3, 5, 2}), s.uniform({3}, 0.5, 2), s.normal({3})});
            s.add({s.normal({4, 70, 2}), s.uniform({70}, 0.5, 2), s.normal({70}), 0.1});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({4})}, "expected [N, C]");
            e.fails({e.normal({4, 3}), e.normal({4})}, "weight of size");
            e.fails({e.normal({1, 3})}, "no variance");
            e.fails({e.integers({4, 3}, 0, 5)}, "not supported");
          },
  };
}

}  // namespace facula::ops
