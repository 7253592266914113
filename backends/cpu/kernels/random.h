// Values of a Philox stream. Element i of a tensor depends on seed, offset and i alone: float32
// values take word i % 4 of block i / 4, 64-bit values words 2 (i % 2) and 2 (i % 2) + 1 of block i
// / 2.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Elements [first, first + n) to `out`; `first` is a multiple of 4.
template <class T>
using RandomFill = void (*)(std::uint64_t seed, std::uint64_t offset, std::int64_t first,
                            std::int64_t n, T* out);

struct RandomKernels {
  /// Uniform on [0, 1): multiples of 2^-24 and 2^-53.
  RandomFill<float> uniform_float;
  RandomFill<double> uniform_double;
  /// Standard normal by the Box-Muller transform.
  RandomFill<float> normal_float;
  RandomFill<double> normal_double;
  /// All 64 bits.
  RandomFill<std::int64_t> bits;
  /// `scale` where the uniform value is at least p, else 0.
  void (*dropout_factors)(std::uint64_t seed, std::uint64_t offset, std::int64_t first,
                          std::int64_t n, float p, float scale, float* out);
};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(RandomKernels, random)
