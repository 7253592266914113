// Sums of one term for each pair of elements, which losses consist of.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// The sum of n terms, each of which the op of that name computes; `parameter` is its attribute, if
/// it has one.
template <class T>
using TermSum = double (*)(double parameter, const T* self, const T* target, std::int64_t n,
                           bool ask_ahead);

template <class T>
struct PairLossLoops {
  TermSum<T> squared_error, absolute_error, huber_error, logit_cross_entropy;
};

struct PairLossKernels : PairLossLoops<float>, PairLossLoops<double> {};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(PairLossKernels, pair_loss)
