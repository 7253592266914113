// Gradient clipping, called between backward and the optimizer's step.
#pragma once

#include <vector>

#include <facula/tensor.h>

namespace facula::nn::utils {

/// Scales all gradients by max_norm / (norm + 1e-6) if that is below 1. Returns the
/// norm of all gradients seen as one vector, before scaling. `norm_type` >= 1; infinity: the
/// largest magnitude. Throws ValueError for a norm that is not finite if `error_if_nonfinite`.
FACULA_API double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                                  double norm_type = 2, bool error_if_nonfinite = false);

/// Cuts all gradients to [-clip_value, clip_value].
FACULA_API void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace facula::nn::utils
