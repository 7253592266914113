// Sums of one term for each pair of elements, which losses consist of.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"
#include "ops/op_ids.h"

namespace facula::cpu {

/// The sum of n terms, each of which an elementwise op computes; `parameter` is its attribute, if
/// it has one. Elements are asked for `ahead` bytes before their turn, if that is not 0.
template <class T>
using TermSum = double (*)(double parameter, const T* self, const T* target, std::int64_t n,
                           std::int64_t ahead);

/// That of the terms of an op (ops/schema/loss.h), or null.
template <class T>
using TermSumOf = TermSum<T> (*)(OpId term);

struct PairLossKernels {
  TermSumOf<float> f32;
  TermSumOf<double> f64;
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(PairLossKernels, pair_loss)
