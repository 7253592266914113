// Floats of a vector with as much of the vocabulary of functors (ops/schema/scalar.h) as those take
// that go by vectors, with the bits of floats taken alone. Included by kernel translation units
// only.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/simd.h"
#include "ops/schema/scalar_base.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#define FACULA_LANES [[gnu::always_inline]] inline

#if defined(__AVX2__)
constexpr std::int64_t kLanes = Vec<float>::kWidth;

struct Lanes {
  Vec<float>::Raw raw;
  explicit Lanes(Vec<float>::Raw v) : raw(v) {}
  explicit Lanes(double constant) : raw(Vec<float>::all(static_cast<float>(constant))) {}
};
FACULA_LANES Lanes load_lanes(const float* p) { return Lanes(Vec<float>::load(p)); }
FACULA_LANES void store_lanes(float* p, Lanes v) { Vec<float>::store(p, v.raw); }
FACULA_LANES Lanes operator-(Lanes a, Lanes b) { return Lanes(a.raw - b.raw); }
FACULA_LANES Lanes operator*(Lanes a, Lanes b) { return Lanes(a.raw * b.raw); }
FACULA_LANES Lanes operator/(Lanes a, Lanes b) { return Lanes(a.raw / b.raw); }
FACULA_LANES Lanes fma(Lanes a, Lanes b, Lanes c) {
  return Lanes(Vec<float>::fma(a.raw, b.raw, c.raw));
}

/// The bits of such floats.
struct LaneBits {
  Vec<float>::Raw raw;
};
FACULA_LANES LaneBits as_bits(Lanes x) { return {x.raw}; }
#if defined(__AVX512F__)
FACULA_LANES Lanes abs(Lanes x) { return Lanes(_mm512_abs_ps(x.raw)); }
FACULA_LANES Lanes fnma(Lanes a, Lanes b, Lanes c) {
  return Lanes(_mm512_fnmadd_ps(a.raw, b.raw, c.raw));
}
FACULA_LANES Lanes lookup(const float (&values)[16], LaneBits index) {
  const __m512i bits = _mm512_castps_si512(index.raw);
  return Lanes(_mm512_maskz_permutexvar_ps(0xffff, bits, _mm512_loadu_ps(values)));
}
FACULA_LANES Lanes select_negative(Lanes x, Lanes a, Lanes b) {
  const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(x.raw));
  return Lanes(_mm512_mask_blend_ps(negative, b.raw, a.raw));
}
/// Without the division, which takes as long as the root. Of a reciprocal within an ulp a step with
/// fused operations makes the correctly rounded one, unless all bits of the mantissa are set: then
/// it ends an ulp below (P. Markstein, "Computation of elementary functions on the IBM RISC
/// System/6000 processor", 1990). Of infinity and zero it makes NaN.
FACULA_LANES Lanes rsqrt(Lanes x) {
  const __m512 root = _mm512_maskz_sqrt_ps(0xffff, x.raw), one = _mm512_set1_ps(1);
  const __m512 estimate = _mm512_maskz_rcp14_ps(0xffff, root);
  __m512 inverse = estimate;
  for (int step = 0; step < 2; ++step) {
    inverse = _mm512_fmadd_ps(_mm512_fnmadd_ps(root, inverse, one), inverse, inverse);
  }
  const __mmask16 none = _mm512_cmp_ps_mask(inverse, inverse, _CMP_UNORD_Q);
  const __m512i all = _mm512_set1_epi32(-1), head = _mm512_set1_epi32(0xff800000);
  const __m512i bits = _mm512_castps_si512(inverse);
  const __mmask16 all_set =
      _mm512_cmpeq_epi32_mask(_mm512_or_si512(_mm512_castps_si512(root), head), all);
  inverse = _mm512_castsi512_ps(_mm512_mask_sub_epi32(bits, all_set, bits, all));
  return Lanes(_mm512_mask_blend_ps(none, inverse, estimate));
}
/// Whether all magnitudes are below the bound; that of NaN is not.
FACULA_LANES bool all_below(Lanes x, float bound) {
  return _mm512_cmp_ps_mask(abs(x).raw, _mm512_set1_ps(bound), _CMP_NLT_UQ) == 0;
}
#else
FACULA_LANES Lanes abs(Lanes x) { return Lanes(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x.raw)); }
FACULA_LANES Lanes fnma(Lanes a, Lanes b, Lanes c) {
  return Lanes(_mm256_fnmadd_ps(a.raw, b.raw, c.raw));
}
FACULA_LANES Lanes lookup(const float (&values)[16], LaneBits index) {
  const __m256i bits = _mm256_castps_si256(index.raw);
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values), bits);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values + 8), bits);
  const __m256 fourth_bit = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 28));
  return Lanes(_mm256_blendv_ps(low, high, fourth_bit));
}
FACULA_LANES Lanes select_negative(Lanes x, Lanes a, Lanes b) {
  return Lanes(_mm256_blendv_ps(b.raw, a.raw, x.raw));
}
FACULA_LANES Lanes rsqrt(Lanes x) {
  return Lanes(_mm256_div_ps(_mm256_set1_ps(1), _mm256_sqrt_ps(x.raw)));
}
FACULA_LANES bool all_below(Lanes x, float bound) {
  const __m256 beyond = _mm256_cmp_ps(abs(x).raw, _mm256_set1_ps(bound), _CMP_NLT_UQ);
  return _mm256_movemask_ps(beyond) == 0;
}
#endif
#else
constexpr std::int64_t kLanes = 1;

using Lanes = float;
FACULA_LANES float load_lanes(const float* p) { return *p; }
FACULA_LANES void store_lanes(float* p, float v) { *p = v; }
FACULA_LANES float rsqrt(float x) { return scalar::rsqrt(x); }
FACULA_LANES bool all_below(float x, float bound) { return scalar::abs(x) < bound; }
#endif

#undef FACULA_LANES

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
