// Loops that update parameters: optimizer_kernels().sgd32 and so on. All pointers are dense runs of
// n elements; scalars come in the parameters' dtype.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

enum class SgdMomentum : std::uint8_t { none, first, later };

template <class T>
struct SgdScalars {
  T sign;  ///< -1 to maximize, else 1
  T weight_decay;
  T momentum;
  T undamped;  ///< 1 - dampening
  T minus_lr;
  SgdMomentum kind;
  bool nesterov;
  bool ask_ahead;  ///< for memory
};

template <class T>
struct AdamScalars {
  T sign;          ///< -1 to maximize, else 1
  T weight_decay;  ///< added to the gradient
  T shrink;        ///< factor of the parameter: 1 - lr * weight_decay, or 1
  T beta1, one_minus_beta1;
  T beta2, one_minus_beta2;
  T sqrt_correction2;  ///< sqrt(1 - beta2^step)
  T eps;
  T minus_step_size;  ///< -lr / (1 - beta1^step)
  bool amsgrad;
  bool ask_ahead;  ///< for memory
};

template <class T>
using SgdLoop = void (*)(const SgdScalars<T>& s, std::int64_t n, T* param, const T* grad,
                         T* buffer);
template <class T>
using AdamLoop = void (*)(const AdamScalars<T>& s, std::int64_t n, T* param, const T* grad, T* mean,
                          T* square, T* largest);

struct OptimizerKernels {
  SgdLoop<float> sgd32;
  SgdLoop<double> sgd64;
  AdamLoop<float> adam32;
  AdamLoop<double> adam64;
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(OptimizerKernels, optimizer)
