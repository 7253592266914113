#include "ops/schema/batch_norm.h"

#include <utility>

#include <facula/ops.h>

#include "ops/schema/channels.h"
#include "ops/schema/checks.h"

namespace facula {

std::int64_t check_normalizable(const Tensor& input, const char* op) {
  const std::int64_t channels = check_channels(input, op);
  check<ShapeError>(input.numel() == 0 || input.numel() > channels,
                    "{}: one value per channel in an input of size {} has no variance; use larger "
                    "batches, drop_last (--drop-last) if it is an epoch's last one, or eval()",
                    op, input.sizes());
  return channels;
}

void infer_batch_norm(Infer& c, const char* op) {
  const Tensor& input = c.in(0);
  const std::int64_t channels = check_normalizable(input, op);
  check_per_channel(c.in(1), "weight", input, op);
  check_per_channel(c.in(2), "bias", input, op);
  c.out(input.dtype(), input.sizes(), channel_format(input));
  c.out(input.dtype(), {channels});
  c.out(input.dtype(), {channels});
}

void infer_batch_norm_backward(Infer& c, const Tensor& input,
                               std::initializer_list<int> per_channel, const char* op) {
  const std::int64_t channels = check_channels(input, op);
  check_defined(op, c.in(0), c.in(per_channel.end()[-2]), c.in(per_channel.end()[-1]));
  check<ShapeError>(c.in(0).sizes() == input.sizes(), "{}: grad of size {} for an input of size {}",
                    op, c.in(0).sizes(), input.sizes());
  check<DTypeError>(c.in(0).dtype() == input.dtype(),
                    "{}: a {} grad for a {} input; both must be of one dtype", op,
                    name_of(c.in(0).dtype()), name_of(input.dtype()));
  for (int i : per_channel) check_per_channel(c.in(i), "a per-channel input", input, op);
  c.out(input.dtype(), input.sizes(), channel_format(input));
  c.out(input.dtype(), {channels});
  c.out(input.dtype(), {channels});
}

void set_batch_norm_gradients(GradientContext& g, std::tuple<Tensor, Tensor, Tensor> gradients) {
  g.set(0, std::move(std::get<0>(gradients)));
  if (g.needs(1)) g.set(1, std::move(std::get<1>(gradients)));
  if (g.needs(2)) g.set(2, std::move(std::get<2>(gradients)));
}

void composed_batch_norm_gradient(GradientContext& g, const Tensor& grad_result,
                                  const Tensor& grad_variance, const Tensor& input,
                                  const Tensor& weight, double eps) {
  const Dims dims = all_but_channels(input.dim());
  const double count = static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
  const Tensor centered = input - sum(input, dims, true) / count;
  const Tensor inverse = rsqrt(sum(centered * centered, dims, true) / count + eps);
  const Tensor normalized = centered * inverse;
  const Tensor grad = grad_result.defined() ? grad_result : zeros_like(input);
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
    if (grad_variance.defined()) {
      result = result + centered * along_channels(grad_variance, input.dim()) * (2 / count);
    }
    g.set(0, result);
  }
  if (g.needs(1)) g.set(1, sum(grad * normalized, dims));
  if (g.needs(2)) g.set(2, sum(grad, dims));
}

}  // namespace facula
