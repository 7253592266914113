#include <facula/nn/utils.h>

#include <cmath>

#include <facula/autograd.h>

#include "base/check.h"

namespace facula::nn::utils {
namespace {

/// Joined in the order of the list and in double, so that the result depends on nothing else.
double total_norm(const std::vector<Tensor>& gradients, double norm_type) {
  double total = 0;
  for (const Tensor& gradient : gradients) {
    if (std::isinf(norm_type)) {
      const double largest = gradient.abs().amax().item();
      // The first NaN is taken over and stays.
      if (!std::isnan(total) && !(largest <= total)) total = largest;
    } else if (norm_type == 2) {
      const double norm = gradient.l2_norm().item();
      total += norm * norm;
    } else {
      total += gradient.abs().pow(norm_type).sum().item();
    }
  }
  if (std::isinf(norm_type)) return total;
  return norm_type == 2 ? std::sqrt(total) : std::pow(total, 1 / norm_type);
}

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined() && gradient.numel() > 0) gradients.push_back(gradient.detach());
  }
  return gradients;
}

}  // namespace

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  check<ValueError>(max_norm >= 0, "clip_grad_norm_: max_norm is {}, must be >= 0", max_norm);
  check<ValueError>(norm_type >= 1, "clip_grad_norm_: norm_type is {}, must be >= 1", norm_type);
  const NoGradGuard no_grad;
  const std::vector<Tensor> gradients = gradients_of(parameters);
  const double norm = total_norm(gradients, norm_type);
  check<ValueError>(!error_if_nonfinite || std::isfinite(norm),
                    "clip_grad_norm_: the norm of the gradients is {}; look for its origin with "
                    "AnomalyMode",
                    norm);
  const double factor = max_norm / (norm + 1e-6);
  // A NaN spreads to all gradients, as in PyTorch.
  if (!(factor >= 1)) {
    for (const Tensor& gradient : gradients) gradient.mul_(factor);
  }
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  check<ValueError>(clip_value >= 0, "clip_grad_value_: clip_value is {}, must be >= 0",
                    clip_value);
  const NoGradGuard no_grad;
  for (const Tensor& gradient : gradients_of(parameters)) gradient.clamp_(-clip_value, clip_value);
}

}  // namespace facula::nn::utils
