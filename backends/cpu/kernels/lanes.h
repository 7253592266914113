// Floats of a vector with as much of the vocabulary of functors (ops/schema/scalar.h) as those take
// that go by vectors, with the bits of floats taken alone. Included by kernel translation units
// only.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/simd.h"
#include "ops/schema/scalar_tables.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#define FACULA_LANES [[gnu::always_inline]] inline
using scalar::detail::NearestParts;

#if defined(__AVX2__)
constexpr std::int64_t kLanes = Vec<float>::kWidth;

struct Lanes {
  Vec<float>::Raw raw;
  explicit Lanes(Vec<float>::Raw v) : raw(v) {}
  explicit Lanes(double constant) : raw(Vec<float>::all(static_cast<float>(constant))) {}
};
FACULA_LANES Lanes load_lanes(const float* p) { return Lanes(Vec<float>::load(p)); }
FACULA_LANES void store_lanes(float* p, Lanes v) { Vec<float>::store(p, v.raw); }
FACULA_LANES Lanes operator+(Lanes a, Lanes b) { return Lanes(a.raw + b.raw); }
FACULA_LANES Lanes operator-(Lanes a, Lanes b) { return Lanes(a.raw - b.raw); }
FACULA_LANES Lanes operator*(Lanes a, Lanes b) { return Lanes(a.raw * b.raw); }
FACULA_LANES Lanes operator/(Lanes a, Lanes b) { return Lanes(a.raw / b.raw); }
FACULA_LANES Lanes fma(Lanes a, Lanes b, Lanes c) {
  return Lanes(Vec<float>::fma(a.raw, b.raw, c.raw));
}

/// The bits of such floats.
#if defined(__AVX512F__)
struct LaneBits {
  __m512i raw;
  explicit LaneBits(__m512i v) : raw(v) {}
  LaneBits(std::uint32_t constant) : raw(_mm512_set1_epi32(static_cast<int>(constant))) {}
};
FACULA_LANES LaneBits as_bits(Lanes x) { return LaneBits(_mm512_castps_si512(x.raw)); }
FACULA_LANES Lanes as_float(LaneBits x) { return Lanes(_mm512_castsi512_ps(x.raw)); }
FACULA_LANES Lanes to_float(LaneBits x) { return Lanes(_mm512_maskz_cvtepi32_ps(0xffff, x.raw)); }
FACULA_LANES LaneBits operator-(LaneBits a, LaneBits b) {
  return LaneBits(_mm512_sub_epi32(a.raw, b.raw));
}
FACULA_LANES LaneBits operator&(LaneBits a, LaneBits b) {
  return LaneBits(_mm512_and_si512(a.raw, b.raw));
}
FACULA_LANES LaneBits operator>>(LaneBits a, int count) {
  return LaneBits(_mm512_maskz_srli_epi32(0xffff, a.raw, static_cast<unsigned>(count)));
}
/// Whether all are below the bound.
FACULA_LANES bool all_below(LaneBits x, std::uint32_t bound) {
  return _mm512_cmpge_epu32_mask(x.raw, LaneBits(bound).raw) == 0;
}
FACULA_LANES Lanes abs(Lanes x) { return Lanes(_mm512_abs_ps(x.raw)); }
FACULA_LANES Lanes at_most(Lanes x, Lanes high) {
  return Lanes(_mm512_maskz_min_ps(0xffff, high.raw, x.raw));
}
FACULA_LANES Lanes at_least(Lanes x, Lanes low) {
  return Lanes(_mm512_maskz_max_ps(0xffff, low.raw, x.raw));
}
FACULA_LANES Lanes positive_part(Lanes x) {
  return as_float(LaneBits(_mm512_maskz_max_epi32(0xffff, as_bits(x).raw, LaneBits(0u).raw)));
}
FACULA_LANES Lanes copysign(Lanes x, Lanes s) {
  const __m512i sign = LaneBits(0x80000000u).raw;
  return as_float(LaneBits(_mm512_ternarylogic_epi32(as_bits(s).raw, as_bits(x).raw, sign, 0xe4)));
}
FACULA_LANES Lanes fnma(Lanes a, Lanes b, Lanes c) {
  return Lanes(_mm512_fnmadd_ps(a.raw, b.raw, c.raw));
}
FACULA_LANES Lanes lookup(const float (&values)[8], LaneBits index) {
  const __m512 twice = _mm512_maskz_broadcast_f32x8(0xffff, _mm256_loadu_ps(values));
  return Lanes(_mm512_maskz_permutexvar_ps(0xffff, index.raw, twice));
}
FACULA_LANES Lanes lookup(const float (&values)[16], LaneBits index) {
  return Lanes(_mm512_maskz_permutexvar_ps(0xffff, index.raw, _mm512_loadu_ps(values)));
}
FACULA_LANES NearestParts<Lanes> nearest_parts(Lanes x) {
  const Lanes r(_mm512_maskz_reduce_ps(0xffff, x.raw, _MM_FROUND_TO_NEAREST_INT));
  return {x - r, r};
}
FACULA_LANES Lanes times_power(Lanes p, Lanes k) {
  const __mmask16 not_zero = _mm512_cmp_ps_mask(k.raw, Lanes(-126).raw, _CMP_NLT_UQ);
  return Lanes(_mm512_maskz_scalef_ps(not_zero, p.raw, k.raw));
}
FACULA_LANES Lanes select_negative(Lanes x, Lanes a, Lanes b) {
  const __mmask16 negative = _mm512_movepi32_mask(as_bits(x).raw);
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
#else
struct LaneBits {
  __m256i raw;
  explicit LaneBits(__m256i v) : raw(v) {}
  LaneBits(std::uint32_t constant) : raw(_mm256_set1_epi32(static_cast<int>(constant))) {}
};
FACULA_LANES LaneBits as_bits(Lanes x) { return LaneBits(_mm256_castps_si256(x.raw)); }
FACULA_LANES Lanes as_float(LaneBits x) { return Lanes(_mm256_castsi256_ps(x.raw)); }
FACULA_LANES Lanes to_float(LaneBits x) { return Lanes(_mm256_cvtepi32_ps(x.raw)); }
FACULA_LANES LaneBits operator-(LaneBits a, LaneBits b) {
  return LaneBits(_mm256_sub_epi32(a.raw, b.raw));
}
FACULA_LANES LaneBits operator&(LaneBits a, LaneBits b) {
  return LaneBits(_mm256_and_si256(a.raw, b.raw));
}
FACULA_LANES LaneBits operator>>(LaneBits a, int count) {
  return LaneBits(_mm256_srli_epi32(a.raw, count));
}
FACULA_LANES bool all_below(LaneBits x, std::uint32_t bound) {
  const __m256i not_below = _mm256_cmpeq_epi32(_mm256_max_epu32(x.raw, LaneBits(bound).raw), x.raw);
  return _mm256_testz_si256(not_below, not_below) != 0;
}
FACULA_LANES Lanes abs(Lanes x) { return Lanes(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x.raw)); }
FACULA_LANES Lanes at_most(Lanes x, Lanes high) { return Lanes(_mm256_min_ps(high.raw, x.raw)); }
FACULA_LANES Lanes at_least(Lanes x, Lanes low) { return Lanes(_mm256_max_ps(low.raw, x.raw)); }
FACULA_LANES Lanes positive_part(Lanes x) {
  return as_float(LaneBits(_mm256_max_epi32(as_bits(x).raw, LaneBits(0u).raw)));
}
FACULA_LANES Lanes copysign(Lanes x, Lanes s) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return Lanes(_mm256_or_ps(_mm256_and_ps(sign, s.raw), _mm256_andnot_ps(sign, x.raw)));
}
FACULA_LANES Lanes fnma(Lanes a, Lanes b, Lanes c) {
  return Lanes(_mm256_fnmadd_ps(a.raw, b.raw, c.raw));
}
FACULA_LANES Lanes lookup(const float (&values)[8], LaneBits index) {
  return Lanes(_mm256_permutevar8x32_ps(_mm256_loadu_ps(values), index.raw));
}
FACULA_LANES Lanes lookup(const float (&values)[16], LaneBits index) {
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values), index.raw);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values + 8), index.raw);
  const __m256 fourth_bit = _mm256_castsi256_ps(_mm256_slli_epi32(index.raw, 28));
  return Lanes(_mm256_blendv_ps(low, high, fourth_bit));
}
FACULA_LANES NearestParts<Lanes> nearest_parts(Lanes x) {
  const Lanes within = at_most(at_least(x, Lanes(-127)), Lanes(128));
  const Lanes k(_mm256_round_ps(within.raw, _MM_FROUND_TO_NEAREST_INT));
  return {k, within - k};
}
FACULA_LANES Lanes times_power(Lanes p, Lanes k) {
  const LaneBits shifted = as_bits(k + Lanes(0x1.8p23 + 127));
  return p * as_float(LaneBits(_mm256_slli_epi32(shifted.raw, 23)));
}
FACULA_LANES Lanes select_negative(Lanes x, Lanes a, Lanes b) {
  return Lanes(_mm256_blendv_ps(b.raw, a.raw, x.raw));
}
FACULA_LANES Lanes rsqrt(Lanes x) {
  return Lanes(_mm256_div_ps(_mm256_set1_ps(1), _mm256_sqrt_ps(x.raw)));
}
#endif
#else
constexpr std::int64_t kLanes = 1;

using Lanes = float;
FACULA_LANES float load_lanes(const float* p) { return *p; }
FACULA_LANES void store_lanes(float* p, float v) { *p = v; }
FACULA_LANES float rsqrt(float x) { return scalar::rsqrt(x); }
FACULA_LANES bool all_below(std::uint32_t x, std::uint32_t bound) { return x < bound; }
#endif

#undef FACULA_LANES

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
