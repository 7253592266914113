#include <facula/ops.h>

#include "base/check.h"
#include "ops/schema/channels.h"
#include "ops/schema/checks.h"
#include "ops/schema/op_def.h"

namespace facula {
namespace {

/// running = (1 - momentum) * running + momentum * observed.
void update(const Tensor& running, const Tensor& observed, double momentum) {
  if (!running.defined()) return;
  // Through an alias without history: statistics are no parameters, even where someone marked them.
  const Tensor statistics = running.detach();
  statistics.copy_(statistics * (1 - momentum) + observed * momentum);
}

}  // namespace

Tensor batch_norm(const Tensor& self, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum,
                  double eps) {
  check_channels(self, "batch_norm");
  common_device("batch_norm", {&self, &running_mean, &running_var, &weight, &bias});
  check_per_channel(running_mean, "running_mean", self, "batch_norm");
  check_per_channel(running_var, "running_var", self, "batch_norm");
  check_per_channel(weight, "weight", self, "batch_norm");
  check_per_channel(bias, "bias", self, "batch_norm");
  if (training) {
    const auto [output, mean, invstd, variance] = batch_norm_train(self, weight, bias, eps);
    if (running_mean.defined() && self.numel() > 0) {
      // PyTorch keeps the unbiased variance.
      const double count = static_cast<double>(self.numel()) / static_cast<double>(self.size(1));
      update(running_mean, mean.detach(), momentum);
      update(running_var, variance.detach() * (count / (count - 1)), momentum);
    }
    return output;
  }
  check<ValueError>(
      running_mean.defined() && running_var.defined(),
      "batch_norm: evaluation needs running_mean and running_var; they are undefined");
  Tensor scale = rsqrt(running_var + eps);
  if (weight.defined()) scale = scale * weight;
  Tensor shift = neg(running_mean * scale);
  if (bias.defined()) shift = shift + bias;
  return channel_affine(self, scale, shift);
}

namespace ops {

CompositeDef define_batch_norm() {
  return {
      .signature =
          "batch_norm(Tensor self, Tensor? running_mean, Tensor? running_var, "
          "Tensor? weight=None, Tensor? bias=None, bool training=False, "
          "float momentum=0.1, float eps=1e-05) -> Tensor",
      .doc =
          "Batch normalization over channels. In training, by the batch's statistics, which also "
          "update the running ones in place; else by the running ones.  self: [N, C, ...] "
          "floating, running_mean, running_var, weight, bias: [C] -> [N, C, ...].",
      .samples =
          [](Samples& s) {
            s.add({s.normal({4, 3, 5, 2}), s.normal({3}), s.uniform({3}, 0.5, 2),
                   s.uniform({3}, 0.5, 2), s.normal({3})});
            s.add({s.normal({4, 3, 5, 2}), NoneType{}, NoneType{}, NoneType{}, NoneType{}, true});
          },
      .errors =
          [](ErrorSamples& e) {
            e.fails({e.normal({4, 3}), e.normal({4}), e.normal({3})}, "running_mean of size");
            e.fails({e.normal({4, 3}), NoneType{}, NoneType{}}, "needs running_mean");
            e.fails({e.normal({4, 3}), e.normal({3}), e.normal({3}), e.normal({1})},
                    "weight of size [1]");
          },
  };
}

}  // namespace ops
}  // namespace facula
