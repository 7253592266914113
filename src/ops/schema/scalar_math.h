// Scalars of the op vocabulary, part 3: branch-free float functions of at most 2 ulp.
//
// Written for compilers to vectorise and to give the same bits on every instruction set: no
// branches, a fixed order of operations, and tables only where kernels look values up for a vector
// at once. All stay in float and use fma wherever it saves an operation or tells what was rounded
// away.
// Multiplications, divisions and comparisons are what they are short of: AVX-512 processors have
// one unit for them beside one for the rest, so bounds are set and exponents split with integers.
// Coefficients are minimax (Remez) for the relative error on the interval given, rounded to the
// type. Measured errors: docs/math.md.
#pragma once

#include "ops/schema/scalar_tables.h"

namespace facula::scalar {
namespace detail {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// at_most() for a >= 0, and x within [low, high] for low < 0 < high, as integers: those order
/// floats of one sign by magnitude, and their minimum is one instruction that compilers leave
/// alone, where float bounds become several comparisons and masks. NaN is lost: it becomes `high`
/// or `low`.
FACULA_FN float bounded(float a, float high) { return as_float(min(as_int(a), as_int(high))); }
FACULA_FN float bounded(float x, float low, float high) {
  // As unsigned integers, negative floats are larger than positive ones.
  const uint32_t bits = min(as_bits(x), as_bits(low));
  return bounded(as_float(bits), high);
}

/// The same with 127 more in the lowest bits, the bias of exponents, or 254, where scale() wants
/// them.
inline constexpr float kRoundToPower = kRound + 127, kRoundToScale = kRound + 254;

/// k where the exponent of a float stands; unsigned, because that of NaN may wrap. The second is
/// for k = shifted - kRound, whose lowest bits are all that the shift leaves of kRound.
FACULA_FN uint32_t exponent(int32_t k) { return static_cast<uint32_t>(k) << 23; }
FACULA_FN uint32_t exponent(float shifted) { return exponent(as_int(shifted)); }
/// 2^k for exponent(k + 127) with k in [-126, 127]; zero for k = -127.
FACULA_FN float power(uint32_t biased_exponent) { return as_float(biased_exponent); }

/// x = k * ln2 + r, |r| <= ln2 / 2, for |x| <= 104.
struct ExpArgument {
  float r;
  float shifted;  // k + round
};
FACULA_FN ExpArgument reduce_exp(float x, float round = kRound) {
  const float shifted = fma(x, 1.44269504f, round);
  const float n = shifted - round;
  // ln2 in two parts, the first of 9 bits: exact
  const float r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, x));
  return {r, shifted};
}
/// The same, r with an error of k * 2^-29.
FACULA_FN ExpArgument reduce_small_exp(float x, float round = kRound) {
  const float shifted = fma(x, 1.44269504f, round);
  return {fma(shifted - round, -0.693147182f, x), shifted};
}

/// (e^r - 1 - r) / s for |r| <= ln2 / 2, s = r^2. By halves (Estrin), because the longest chain
/// decides here.
FACULA_FN float exp_rest(float r, float s) {
  const float high = fma(0.00138825085f, s, fma(0.00836658012f, r, 0.0416672006f));
  return fma(high, s, fma(0.166665435f, r, 0.49999997f));
}
/// e^r - 1 for |r| <= ln2 / 2.
FACULA_FN float expm1_reduced(float r) {
  const float s = r * r;
  return fma(exp_rest(r, s), s, r);
}

/// 2^r for |r| <= 1/2.
FACULA_FN float exp2_reduced(float r) {
  return horner(r, 0.000153532572f, 0.00133990042f, 0.00961843878f, 0.0555033199f, 0.240226477f,
                0.693147182f, 1.0f);
}

/// 2^k for k = shifted - kRoundToScale in [-252, 254], as the product of two normal floats: what is
/// multiplied by one after the other may become infinite or subnormal.
struct PowersOfTwo {
  float first, second;
};
FACULA_FN PowersOfTwo powers_of_two(float shifted) {
  const uint32_t bits = as_bits(shifted);  // the lowest are 254 + k
  const uint32_t half = (bits >> 1) << 23;
  return {power(half), power((bits << 23) - half)};
}
/// (1 + t) * 2^k for |t| <= 1/2.
FACULA_FN float scale(float t, float shifted) {
  const auto [first, second] = powers_of_two(shifted);
  return fma(t, first, first) * second;
}
/// 2^(r + k) for |r| <= 1/2.
FACULA_FN float scaled_exp2(float r, float shifted) {
  const auto [first, second] = powers_of_two(shifted);
  return exp2_reduced(r) * first * second;
}

/// (e^x - 1) / 2 for k in [-126, 128], where `shifted` is k + kRoundToPower - 1.
FACULA_FN float half_expm1(ExpArgument x) {
  const float half = power(exponent(x.shifted));
  return fma(half, expm1_reduced(x.r), half - 0.5f);
}

/// e^x / 4 for x in [0, 89.5].
FACULA_FN float quarter_exp(float x) {
  const auto [r, shifted] = reduce_exp(x, kRoundToPower - 2);
  const float quarter = power(exponent(shifted));
  return fma(expm1_reduced(r), quarter, quarter);
}

/// e^(-a^2 / 2) for a in [0, 13.28], of which only the absolute error is small.
FACULA_FN float gaussian(float a) {
  const float t = a * -0.72134752f * a;
  const float shifted = t + kRoundToPower;
  const float r = t - (shifted - kRoundToPower);
  return rough_exp2_reduced(r) * power(exponent(shifted));
}
inline constexpr float kGaussianEnd = 13.28f;

/// The probability of values beyond a is p / q times the gaussian: Mills' ratio over sqrt(2 pi).
/// The weight of its error falls with the density.
struct Quotient {
  float p, q;
};
FACULA_FN Quotient mills_ratio(float a) {
  return {horner(a, 0.0404102201f, 0.214853892f, 0.5f),
          horner(a, 0.099513533f, 0.560222015f, 1.22759827f, 1.0f)};
}

/// Factors of erfc(a) = (1 + t) * 2^n for a in [4, 10.1], t in [-0.36, 0.54].
struct ErfcFactors {
  float t;
  float shifted;  // n + kRound
};
/// log(erfc(a)) is -a^2 + c + v * q(v) for v = a - b in each of two intervals. The b are short, so
/// that v is exact, and such that c is short: its sum with n * ln2 is exact, too. A parabola is
/// near enough for n: |r| <= 0.404.
FACULA_FN ErfcFactors far_erfc(float a) {
  const bool beyond = a >= 6.25f;
  const float curve = select(beyond, -1.43720329f, -1.41278129f);
  const float slope = select(beyond, -0.271780640f, -0.585187197f);
  const float shifted = fma(a, fma(a, curve, slope), select(beyond, kRound - 2, kRound - 1));
  const float n = shifted - kRound;
  const float v = a - select(beyond, 8.13574219f, 4.97070312f);
  const float c = select(beyond, -2.67604828f, -2.19522858f);
  const float q = horner(v, select(beyond, 4.53655336e-09f, 1.59517228e-07f),
                         select(beyond, -4.44098305e-08f, -7.67379447e-07f),
                         select(beyond, 4.23106712e-07f, 5.09604615e-06f),
                         select(beyond, -4.51963342e-06f, -3.88709886e-05f),
                         select(beyond, 4.94557898e-05f, 0.000287362229f),
                         select(beyond, -0.000567701703f, -0.00218599825f),
                         select(beyond, 0.00723160012f, 0.0181236137f),
                         select(beyond, -0.121123902f, -0.193756387f));
  // ln2 in two parts, the first of 15 bits: exact
  const float rest = fma(n, -1.42860677e-6f, fma(-a, a, fma(n, -0.693145752f, c)));
  const float r = fma(v, q, rest), s = r * r;
  // exp_rest, for this r
  const float high = fma(0.00137146772f, s, fma(0.00838159863f, r, 0.0416716486f));
  return {fma(fma(high, s, fma(0.166663945f, r, 0.499999732f)), s, r), shifted};
}

/// u = m * 2^k with m in [sqrt(1/2), sqrt(2)), for normal positive u.
struct LogArgument {
  float m;
  int32_t k;
};
FACULA_FN LogArgument split_log(float u) {
  constexpr uint32_t sqrt_half = 0x3f3504f3;  // unsigned: negative u may wrap
  const uint32_t offset = as_bits(u) - sqrt_half;
  return {as_float((offset & 0x7fffff) + sqrt_half), static_cast<int32_t>(offset) >> 23};
}

inline constexpr float kMinNormal = std::numeric_limits<float>::min();

/// f for 1 + f = m, and k as a float, of split_log for normal x > 0, or all finite x > 0.
struct LogTerms {
  float f, n;
};
FACULA_FN LogTerms normal_log_terms(float x) {
  const auto [m, k] = split_log(x);
  return {m - 1.0f, static_cast<float>(k)};
}
FACULA_FN LogTerms log_terms(float x) {
  const bool subnormal = x < kMinNormal;
  const auto [f, n] = normal_log_terms(select(subnormal, x * 0x1p24f, x));
  return {f, n - select(subnormal, 24.0f, 0.0f)};
}

/// log(1 + f) + n * ln2 for 1 + f in [sqrt(1/2), sqrt(2)), then to other bases, where the factor of
/// f comes in two parts.
FACULA_FN float log_sum(LogTerms x) {
  const auto [f, n] = x;
  const float p = horner(f, -0.0765912384f, 0.129294515f, -0.132399425f, 0.141774371f, -0.1660887f,
                         0.200022057f, -0.250016034f, 0.333333224f, -0.499999881f);
  return fma(n, 0.693147182f, fma(p, f * f, f));
}
FACULA_FN float log2_sum(LogTerms x) {
  const auto [f, n] = x;
  const float p = horner(f, -0.11025586f, 0.187088221f, -0.191390842f, 0.204486579f, -0.239567354f,
                         0.288571417f, -0.36069867f, 0.480898201f, -0.721347332f);
  return n + fma(f, 1.44269502f, f * fma(p, f, 1.92596299e-8f));
}
FACULA_FN float log10_sum(LogTerms x) {
  const auto [f, n] = x;
  const float p = horner(f, -0.0333015993f, 0.0562876873f, -0.0575583912f, 0.0615584329f,
                         -0.0721232817f, 0.0868687108f, -0.108580887f, 0.144764781f, -0.217147186f);
  const float y = fma(f, 0.434294492f, f * fma(p, f, -1.01030503e-8f));
  return fma(n, 0.301030010f, fma(n, -1.43209889e-8f, y));
}

/// log(1 + z) for z in [0, 1]. It is 2 atanh(s) for s = z / (2 + z), written as z less a small
/// multiple of s, so that the errors of s count little.
FACULA_FN float log1p_unit(float z) {
  const float s = z / (2.0f + z), w = s * s;
  const float p = horner(w, 0.28012156f, 0.28001773f, 0.4002153f, 0.6666642f);
  return fma(-s, fma(-w, p, z), z);
}

/// The logarithm `y` of x > 0 completed for all x. NaN and +infinity are larger than all finite
/// positive numbers as unsigned integers, zero is the largest after the subtraction; inf * x + inf
/// is NaN for negative x.
FACULA_FN float log_specials(float x, float y) {
  const bool ordinary = as_bits(x) - 1 < 0x7f7fffff;
  return select(ordinary, y, select(x == 0.0f, -kInf, fma(x, kInf, kInf)));
}

/// high + low with what rounding took from high in low.
struct FloatPair {
  float high, low;
};

/// log2(x) = n + 2 atanh(s + s_low) / ln2 for normal x > 0. x = 2^k * m, n = k + log2(c) and s = (m
/// - c) / (m + c) for c = 1 or a float near sqrt(2), m / c within 2^(+-0.254). Of the floats around
/// sqrt(2) the one is taken whose logarithm is closest to a multiple of 2^-15: within 2^-35.
struct Log2Parts {
  float s, s_low, n;
};
FACULA_FN Log2Parts log2_parts(float x) {
  constexpr uint32_t low = 0x3f57d567;  // 0.8431, so that the bit below the exponent chooses c
  const uint32_t bits = as_bits(x), offset = bits - low;
  const bool upper = (offset & 0x400000) != 0;
  const uint32_t k = offset & 0xff800000u;  // where the exponent of a float stands
  const float m = as_float(bits - k);
  const float c = select(upper, 1.41436315f, 1.0f), log2c = select(upper, 16389 * 0x1p-15f, 0.0f);
  const float f = m - c, g = m + c, g_low = m - (g - c);
  const float inverse = 1.0f / g, s = f * inverse;
  return {s, fma(-s, g_low, fma(-s, g, f)) * inverse,
          fma(static_cast<float>(static_cast<int32_t>(k)), 0x1p-23f, log2c)};
}

/// The logarithm within 2^-30 of itself; low is at most 2^-8 of high.
FACULA_FN FloatPair log2_pair(Log2Parts x) {
  constexpr float factor = 2.88539004f, factor_low = 3.85192598e-8f;  // 2 / ln2
  const float s = x.s, z = s * s, linear = factor * s;
  // The slope of atanh is 1 + z and a little, z at most 0.0077: one in between is near enough.
  const float small = fma(x.s_low, 1.003f * factor, fma(s, factor, -linear));
  const float p = horner(z, 0.416219562f, 0.577064753f, 0.961796701f);
  const float high = x.n + linear;  // |n| >= 1/2 > |linear|, or 0
  return {high, (linear - (high - x.n)) + fma(s, fma(z, p, factor_low), small)};
}

/// y * x = k + r with |r| <= 1/2, for products of at most 2^21. `high` is r, `low` is k + kRound.
FACULA_FN FloatPair split_product(float y, FloatPair x) {
  const float shifted = fma(y, x.high + x.low, kRound), k = shifted - kRound;
  return {fma(y, x.low, fma(y, x.high, -k)), shifted};
}
/// 2^(k + r) for such k and r, if it is far from infinity and subnormal numbers.
FACULA_FN float common_exp2(FloatPair x) {
  const uint32_t bits = as_bits(exp2_reduced(x.high)) + exponent(x.low);
  return as_float(bits);
}

// The rarity of an argument orders those that a common_... function takes below a bound, others at
// or above it, in the fewest instructions: functors of such ops tell it to their loops.
template <class F>
FACULA_FN auto magnitude_rarity(F x) {
  return as_bits(abs(x));
}
/// Normal x > 0 are common.
FACULA_FN uint32_t log_rarity(float x) { return as_bits(x) - 0x00800000u; }
inline constexpr uint32_t kRareLogarithm = 0x7f000000;
/// 1 + x for which near_log1p() is are common.
template <class F>
FACULA_FN auto log1p_rarity(F x) {
  return as_bits(x + K<F>(1)) - 0x00800000u;
}
inline constexpr uint32_t kRareLog1p = 0x7e000000 - 0x00800000;  // 2^125
/// k in [-125, 127] is common, in what split_product() returns.
FACULA_FN uint32_t product_rarity(FloatPair x) {
  constexpr uint32_t first = __builtin_bit_cast(uint32_t, kRound - 125);
  return as_bits(x.low) - first;
}
inline constexpr uint32_t kRareProduct = 253;
/// Magnitudes below 86 are common: then e^x and its inverse are normal.
inline constexpr uint32_t kRarePower = 0x42ac0000;

}  // namespace detail

/// e^x for |x| < 86 as exp(); zero at -88.
FACULA_FN float common_exp(float x) {
  const auto [r, shifted] = detail::reduce_exp(x, detail::kRoundToPower);
  const float power = detail::power(detail::exponent(shifted));
  return fma(detail::expm1_reduced(r), power, power);
}
FACULA_FN float exp(float x) {
  const auto [r, shifted] =
      detail::reduce_exp(detail::bounded(x, -104.0f, 89.0f), detail::kRoundToScale);
  return select(x == x, detail::scale(detail::expm1_reduced(r), shifted), x);
}

FACULA_FN float exp2(float x) {
  const float t = detail::bounded(x, -151.0f, 128.0f);
  const float shifted = t + detail::kRoundToScale;
  const float r = t - (shifted - detail::kRoundToScale);  // |r| <= 1/2
  return select(x == x, detail::scaled_exp2(r, shifted), x);
}

/// e^x - 1 for |x| < 86 as expm1(), but for the sign of zero.
FACULA_FN float common_expm1(float x) {
  const auto [r, shifted] = detail::reduce_exp(x, detail::kRoundToPower);
  const float power = detail::power(detail::exponent(shifted));
  return fma(power, detail::expm1_reduced(r), power - 1.0f);
}
FACULA_FN float expm1(float x) {
  const float y = 2.0f * detail::half_expm1(detail::reduce_exp(detail::bounded(x, -18.0f, 89.0f),
                                                               detail::kRoundToPower - 1));
  return select(abs(x) >= 0x1p-24f, y, x);
}

// common_log, common_log2 and common_log10 are for normal x > 0.
FACULA_FN float common_log(float x) { return detail::log_sum(detail::normal_log_terms(x)); }
FACULA_FN float common_log2(float x) { return detail::log2_sum(detail::normal_log_terms(x)); }
FACULA_FN float common_log10(float x) { return detail::log10_sum(detail::normal_log_terms(x)); }
FACULA_FN float log(float x) {
  return detail::log_specials(x, detail::log_sum(detail::log_terms(x)));
}
FACULA_FN float log2(float x) {
  return detail::log_specials(x, detail::log2_sum(detail::log_terms(x)));
}
FACULA_FN float log10(float x) {
  return detail::log_specials(x, detail::log10_sum(detail::log_terms(x)));
}

FACULA_FN float log1p(float x) {
  const float u = x + 1.0f;
  const float y = detail::log_specials(u, detail::log_sum(detail::normal_log_terms(u)));
  return select(detail::log1p_rarity(x) < detail::kRareLog1p, detail::near_log1p(x), y);
}

/// e^x for x in [-88, 88], zero where that is no normal float, with reduce_small_exp's error.
FACULA_FN float exp_or_zero(float x) {
  const auto [r, shifted] = detail::reduce_small_exp(x, detail::kRoundToPower);
  const float power = detail::power(detail::exponent(shifted));
  return fma(detail::expm1_reduced(r), power, power);
}

/// log(1 + e^x) for x <= 0. common_log1p_exp is for x > -20, where reduce_small_exp is near enough.
FACULA_FN float common_log1p_exp(float x) { return detail::log1p_unit(exp_or_zero(x)); }
FACULA_FN float log1p_exp(float x) {
  const float round = detail::kRoundToScale;
  const auto [near, shifted] = detail::reduce_small_exp(detail::at_least(x, -104.0f), round);
  const float r = select(x > -20.0f, near, fma(shifted - round, 1.9046543e-9f, near));
  return detail::log1p_unit(detail::scale(detail::expm1_reduced(r), shifted));
}

/// 1 / (1 + e^-x) = 2^-k / (e^r + 2^-k), the numerator scaled so that it never underflows; both
/// tails keep their relative accuracy. common_sigmoid is for |x| < 86.
FACULA_FN float common_sigmoid(float x) {
  const auto [minus_r, shifted] = detail::reduce_exp(x, detail::kRoundToPower);
  const float power = detail::power(detail::exponent(shifted));
  return power / (power + detail::expm1_reduced(-minus_r) + 1.0f);
}
FACULA_FN float sigmoid(float x) {
  const auto [minus_r, shifted] =
      detail::reduce_exp(detail::bounded(x, -104.0f, 18.0f), detail::kRoundToPower + 40);
  const float scaled_power = detail::power(detail::exponent(shifted));
  const float denominator = fma(scaled_power, 0x1p-40f, detail::expm1_reduced(-minus_r)) + 1.0f;
  return select(x == x, scaled_power / denominator * 0x1p-40f, x);
}

/// x * sigmoid(gate), for gates whose errors are those of sums; below -87 they count as -87.
FACULA_FN float gated(float x, float gate) {
  return x / (exp_or_zero(-detail::bounded(gate, -87.0f, 87.0f)) + 1.0f);
}

FACULA_FN float tanh(float x) { return detail::near_tanh(x); }

FACULA_FN float erf(float x) { return detail::near_erf(x); }

/// The standard normal distribution's density and the probability of values up to x, for GELU.
/// Their absolute error is at most 2e-7; relative to the lower tail it grows to half a percent.
FACULA_FN float normal_pdf(float x) {
  return 0.39894228f * detail::gaussian(detail::at_most(abs(x), detail::kGaussianEnd));
}
FACULA_FN float normal_cdf(float x) {
  const float a = detail::at_most(abs(x), detail::kGaussianEnd);
  const auto [p, q] = detail::mills_ratio(a);
  const float tail = detail::gaussian(a) * (p / q);
  return select(as_int(x) < 0, tail, 1.0f - tail);
}
/// x * normal_cdf(x).
FACULA_FN float gelu(float x) { return detail::near_gelu(x); }

/// 1 - erf(x), accurate down to the smallest subnormal.
FACULA_FN float erfc(float x) {
  const float a = detail::at_most(abs(x), 10.1f);
  const auto [t, shifted] = detail::far_erfc(a);
  const float power = detail::power(detail::exponent(shifted) + detail::exponent(127 + 32));
  const float far = fma(t, power, power) * 0x1p-32f;
  return select(a < detail::kNearErfc, detail::near_erfc(x),
                detail::select_negative(x, 2.0f - far, far));
}

/// (2^k - 2^-k) / 2 * cosh(r) + (2^k + 2^-k) / 2 * sinh(r), x itself where nothing is added to it.
/// Half of it is finite where the result is.
FACULA_FN float sinh(float x) {
  const float magnitude = abs(x);
  const auto [r, shifted] = detail::reduce_exp(detail::bounded(magnitude, 89.5f));
  const uint32_t k = detail::exponent(shifted);
  constexpr uint32_t quarter = uint32_t{127 - 2} << 23;
  const int32_t down_exponent = static_cast<int32_t>(quarter - k);
  const float up = detail::power(quarter + k);
  const float down = as_float(max(down_exponent, 0));
  const float s = r * r, even = up - down;
  const float sinh_r = fma(r * s, detail::horner(s, 0.00836655311f, 0.166665435f), r);
  const float cosh_r_less_1 = s * detail::horner(s, 0.00139354379f, 0.0416664593f, 0.5f);
  const float half = fma(even, cosh_r_less_1, fma(up + down, sinh_r, even));
  return copysign(select(magnitude >= 0x1p-12f, half + half, magnitude), x);
}
/// 2 (q + 1 / (16 q)) for q = e^x / 4, which is finite where the result is.
FACULA_FN float cosh(float x) {
  const float q = detail::quarter_exp(detail::at_most(abs(x), 89.5f));
  return 2.0f * (q + 0.0625f / q);
}

/// a to the power b, with all special cases of C's pow. common_pow is for normal a > 0 and products
/// that are common; loops compute its three parts one after the other, for processors have more of
/// short chains under way at the same time.
FACULA_FN float common_pow(float a, float b) {
  return detail::common_exp2(detail::split_product(b, detail::log2_pair(detail::log2_parts(a))));
}
FACULA_FN float pow(float a, float b) {
  const float magnitude = abs(a);
  const bool subnormal = magnitude < detail::kMinNormal;
  auto parts = detail::log2_parts(select(subnormal, magnitude * 0x1p24f, magnitude));
  parts.n = parts.n - select(subnormal, 24.0f, 0.0f);
  const auto log2a = detail::log2_pair(parts);
  const float product =
      b * select(magnitude == 0.0f, -detail::kInf,
                 select(magnitude < detail::kInf, log2a.high + log2a.low, magnitude));
  const bool ordinary = abs(product) < 200.0f;
  const auto [r, shifted] = detail::split_product(b, log2a);
  const float end = detail::bounded(product, -200.0f, 200.0f) + detail::kRound;
  const float power =
      detail::scaled_exp2(select(ordinary, r, 0.0f), select(ordinary, shifted, end) +
                                                         (detail::kRoundToScale - detail::kRound));
  // 1^b and a^0 are 1 even for NaN and infinities; (-1)^NaN turns out below not to be.
  const bool one = (b == 0.0f) | (magnitude == 1.0f);
  const float y = select(one, 1.0f, select((a != a) | (b != b), detail::kNan, power));
  const float half = b * 0.5f;
  const int32_t sign =
      select(round(half) != half, as_int(a) & std::numeric_limits<int32_t>::min(), 0);
  const bool negative = as_bits(a) - 0x80000001u < 0x7f7fffffu;  // and finite
  return select(round(b) == b, as_float(as_int(y) ^ sign), select(negative, detail::kNan, y));
}

}  // namespace facula::scalar
