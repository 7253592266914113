#include "backends/cpu/kernels/peak.h"

#include "backends/cpu/kernels/simd.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Independent sums: more than latency times instructions per cycle anywhere.
constexpr int kChains = 12;

double multiply_add(std::int64_t rounds) {
  using X = Vec<float>;
  // They converge to 1: neither denormal nor infinite.
  const X::Raw half = X::all(0.5f);
  X::Raw sums[kChains];
  for (X::Raw& sum : sums) sum = half;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (X::Raw& sum : sums) sum = X::fma(sum, half, half);
  }
  asm volatile("" : : "g"(&sums) : "memory");  // somebody looks at them
  return 2.0 * kChains * X::kWidth * static_cast<double>(rounds);
}

}  // namespace

extern const PeakKernels peak_kernels = {multiply_add};

}  // namespace facula::cpu::FACULA_ISA
