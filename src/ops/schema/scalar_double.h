// Scalars of the op vocabulary, part 4: branch-free double functions of at most 2 ulp.
//
// Written by the rules of part 2 with one difference: no fma, which doubles would have to emulate
// without the instruction, at a price that they never pay. Where a product has to be exact, its
// factors are short; where a sum has to be, what rounding takes from it is computed (Dekker's
// fast two-sum). SSE2 and AVX2 neither compare 64-bit integers nor shift them arithmetically nor
// convert them: comparisons are of doubles, shifts are logical, and integers become doubles by
// the bits of a large number. Polynomials go by pairs of coefficients (Estrin), for the longest
// chain decides here. Coefficients are minimax (Remez) on the interval given, rounded to double.
// Measured errors: docs/math.md.
#pragma once

#include "ops/schema/scalar_trig.h"

namespace facula::scalar {
namespace detail {

FACULA_FN double at_most(double x, double high) { return high < x ? high : x; }
FACULA_FN double at_least(double x, double low) { return low > x ? low : x; }

inline constexpr double kInfDouble = std::numeric_limits<double>::infinity();
inline constexpr double kMinNormalDouble = std::numeric_limits<double>::min();

/// 2^k for a k with the bias of exponents in the lowest bits that the rounding constant has left.
FACULA_FN double power(double shifted) {
  return as_float(static_cast<int64_t>(as_bits(shifted) << 52));
}
/// Rounding constants with a bias in the lowest bits.
inline constexpr double kRoundDoubleToPower = kRoundDouble + 1023;
inline constexpr double kRoundDoubleToScale = kRoundDouble + 2046;

/// high + low with what rounding took from high in low.
struct DoublePair {
  double high, low;
};
/// a + b, if a is at least of the magnitude of b, or zero, or a multiple of b's last place.
FACULA_FN DoublePair sum_of(double a, double b) {
  const double high = a + b;
  return {high, (a - high) + b};
}

/// The first 26 bits of x: products of two such numbers are exact.
FACULA_FN double short_of(double x) {
  return as_float(static_cast<int64_t>(as_bits(x) & 0xfffffffff8000000));
}

/// x = k * ln2 + r + low, |r| <= ln2 / 2, for |x| < 1100.
struct DoubleExpArgument {
  double r, low;
  double shifted;  // k + round
};
FACULA_FN DoubleExpArgument reduce_exp(double x, double round) {
  const double shifted = x * 1.4426950408889634 + round;
  const double n = shifted - round;
  // ln2 in two parts, the first of 41 bits: its product is exact
  const double near = x - n * 0x1.62e42fefa4p-1, rest = n * -0x1.8432a1b0e2634p-43;
  const double r = near - rest;
  return {r, (near - r) - rest, shifted};
}

/// (e^r - 1 - r) / s for |r| <= ln2 / 2, s = r^2, within 2^-53.
FACULA_FN double exp_rest(double r, double s) {
  const double s2 = s * s;
  const double high = (2.5110031280134155e-08 * r + 2.7620077130270987e-07) * s +
                      (2.755724238466732e-06 * r + 2.4801521319544003e-05);
  const double middle = (0.00019841269886551916 * r + 0.0013888888917198635) * s +
                        (0.008333333333322217 * r + 0.04166666666662416);
  return (high * s2 + middle) * s + (0.16666666666666674 * r + 0.5000000000000001);
}
/// e^r - 1, without what rounding took from r.
FACULA_FN double expm1_reduced(double r) {
  const double s = r * r;
  return exp_rest(r, s) * s + r;
}

/// (1 + t) * 2^k for |t| <= 1/2 and k = shifted - kRoundDoubleToScale in [-1100, 1030], in two
/// factors, see powers_of_two().
FACULA_FN double scale(double t, double shifted) {
  const uint64_t bits = as_bits(shifted);  // the lowest are 2046 + k
  const uint64_t half = (bits >> 1) << 52;
  const double first = as_float(static_cast<int64_t>(half));
  const double second = as_float(static_cast<int64_t>((bits << 52) - half));
  return (t * first + first) * second;
}

/// (e^x - 1) / 2 for x in [-40, 710]: high + low.
FACULA_FN DoublePair half_expm1(double x) {
  const auto [r, r_low, shifted] = reduce_exp(x, kRoundDoubleToPower - 1);
  const double half = power(shifted), s = r * r;
  const auto [high, low] = sum_of(half - 0.5, half * r);
  return sum_of(high, (exp_rest(r, s) * s + r_low) * half + low);
}

/// x = 2^k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), k as a double, for normal x > 0.
struct DoubleLogTerms {
  double f, n;
};
FACULA_FN DoubleLogTerms normal_log_terms(double x) {
  constexpr uint64_t sqrt_half = 0x3fe6a09e667f3bcd;
  const uint64_t offset = as_bits(x) + (0x3ff0000000000000 - sqrt_half);
  const uint64_t m = (offset & 0x000fffffffffffff) + sqrt_half;
  // The exponent, with its bias, in the lowest bits of 2^52.
  const uint64_t n = (offset >> 52) | 0x4330000000000000;
  return {as_float(static_cast<int64_t>(m)) - 1.0,
          as_float(static_cast<int64_t>(n)) - (0x1p52 + 1023)};
}
/// The same for all finite x > 0.
FACULA_FN DoubleLogTerms log_terms(double x) {
  const bool subnormal = x < kMinNormalDouble;
  const auto [f, n] = normal_log_terms(select(subnormal, x * 0x1p54, x));
  return {f, n - select(subnormal, 54.0, 0.0)};
}

/// f - log(1 + f), which is f^2 / 2 - s * (f^2 / 2 + w * q(w)) for s = f / (2 + f), w = s^2: the
/// logarithm is 2 atanh(s). |s| <= 0.1716, w * q(w) within 2^-58.
FACULA_FN double log_shortfall(double f) {
  const double s = f / (f + 2.0), w = s * s, w2 = w * w, half = f * f * 0.5;
  const double high = (0.14795953468227196 * w + 0.15314050140478283) * w2 +
                      (0.18183564343766598 * w + 0.2222219857281321);
  const double q =
      (high * w2 + (0.2857142874239151 * w + 0.3999999999941466)) * w + 0.6666666666666734;
  return half - s * (q * w + half);
}

/// log(1 + f) + n * ln2, then to other bases. There the high part of log(1 + f) and its factor
/// are short, so that their product is exact.
FACULA_FN double log_sum(DoubleLogTerms x) {
  const auto [f, n] = x;
  const double rest = log_shortfall(f) - n * -0x1.8432a1b0e2634p-43;
  const auto [high, low] = sum_of(n * 0x1.62e42fefa4p-1, f);
  return high + (low - rest);
}
/// `factor`, of at most 26 bits, and factor_low are 1 / log(base).
FACULA_FN DoublePair log_to_base(double f, double factor, double factor_low) {
  const double shortfall = log_shortfall(f), y = f - shortfall;
  const double high = short_of(y), low = (f - high) - shortfall;
  return {high * factor, y * factor_low + low * factor};
}
FACULA_FN double log2_sum(DoubleLogTerms x) {
  const auto [high, low] = log_to_base(x.f, 0x1.7154768p0, -0x1.6a3e80f444178p-27);
  const auto [sum, rest] = sum_of(x.n, high);
  return sum + (rest + low);
}
FACULA_FN double log10_sum(DoubleLogTerms x) {
  const auto [high, low] = log_to_base(x.f, 0x1.bcb7b18p-2, -0x1.6c8d78e6acaa4p-29);
  // log10(2) in two parts, the first of 41 bits
  const auto [sum, rest] = sum_of(x.n * 0x1.34413509f8p-2, high);
  return sum + (rest + (x.n * -0x1.80433b83b532ap-44 + low));
}
/// The logarithm `y` of x > 0 completed for all x; inf * x + inf is NaN for negative x.
FACULA_FN double log_specials(double x, double y) {
  const bool ordinary = (x > 0.0) & (x < kInfDouble);
  return select(ordinary, y, select(x == 0.0, -kInfDouble, x * kInfDouble + kInfDouble));
}

/// For |x| < kSmallDoubleAngle: x = n * pi/2 + r + low with |r| <= pi/4, n modulo 4 in the lowest
/// bits. pi/2 comes in four parts, of which the products of the first three, of 33 bits, are exact:
/// r has the accuracy of a double next to multiples of pi/2, too.
struct DoubleAngle {
  double r, low;
  uint64_t n;
};
inline constexpr double kSmallDoubleAngle = 0x1p20;
FACULA_FN DoubleAngle reduce_small_angle(double x) {
  const double shifted = x * 0.6366197723675814 + kRoundDouble;
  const double n = shifted - kRoundDouble;
  const auto [near, near_low] = sum_of(x - n * 0x1.921fb544p0, n * -0x1.0b4611a6p-34);
  const auto [r, r_low] = sum_of(near, n * -0x1.3198a2ep-69);
  return {r, (near_low + r_low) - n * 0x1.b839a252049c1p-104, as_bits(shifted)};
}

/// sin(angle + quarters * pi/2), from polynomials for |r| <= pi/4 within 2^-58. Zeros keep their
/// sign.
FACULA_FN double small_sin(DoubleAngle angle, uint64_t quarters) {
  const auto [r, low, first] = angle;
  const uint64_t n = first + quarters;
  const double s = r * r, s2 = s * s;
  const double p = ((1.5896822779434031e-10 * s - 2.5050758566685095e-08) * s2 +
                    (2.755731369468772e-06 * s - 0.00019841269829815438)) *
                       s2 +
                   (0.008333333333322424 * s - 0.16666666666666632);
  const double sine = copysign(r + (p * (s * r) + low), r);
  const double q = ((-1.1359666602497292e-11 * s + 2.08757236236322e-09) * s2 +
                    (-2.7557314354811925e-07 * s + 2.48015872894904e-05)) *
                       s2 +
                   (-0.0013888888888874136 * s + 0.0416666666666666);
  const auto [near, near_low] = sum_of(1.0, -0.5 * s);
  const double cosine = near + ((q * s2 - r * low) + near_low);
  const bool odd = as_float(static_cast<int64_t>((n & 1) << 62)) != 0.0;
  const uint64_t y = as_bits(select(odd, cosine, sine)) ^ ((n & 2) << 62);
  return as_float(static_cast<int64_t>(y));
}

/// In which kSmallDoubleAngle has the rarity of kSmallAngle as a float.
FACULA_FN uint32_t angle_rarity(double x) {
  constexpr uint32_t end = __builtin_bit_cast(uint64_t, kSmallDoubleAngle) >> 32;
  return static_cast<uint32_t>(as_bits(abs(x)) >> 32) + (kRareAngle - end);
}

/// log2(x) within 2^-64 of itself for normal x > 0: n + 2 atanh(s) / ln2 for 1 + f in
/// [sqrt(1/2), sqrt(2)) and s = f / (2 + f), which is the sum of a short number and a small one.
FACULA_FN DoublePair log2_pair(double x) {
  const auto [f, n] = normal_log_terms(x);
  const double m = f + 1.0, g = f + 2.0, g_high = short_of(g), g_low = m - (g_high - 1.0);
  const double inverse = 1.0 / g, s = f * inverse, high = short_of(s);
  const double low = ((f - high * g_high) - high * g_low) * inverse;
  // s / 3 * (3 + w + w^2 * q(w)) for w = s^2, the last within 2^-71: the first two come exactly
  const double w = s * s, w2 = w * w;
  const double q = ((0.17834031902484293 * w + 0.1753143666492188) * w2 +
                    (0.20003458812286576 * w + 0.2307686387483853)) *
                       w2 +
                   (0.2727272785071794 * w + 0.3333333333034926);
  const double tail = (q * w2 + (0.42857142857149455 * w + 0.6)) * w2 + low * (high + s);
  const double high2 = high * high, series = short_of((high2 + 3.0) + tail);
  const double series_low = tail - ((series - 3.0) - high2);
  const double product = high * series, product_low = low * series + series_low * s;
  // times 2 / (3 ln2), again in two parts
  const double short_product = short_of(product + product_low);
  const double rest = product_low - (short_product - product);
  const auto [sum, sum_low] = sum_of(n, short_product * 0x1.ec709d8p-1);
  return {sum, sum_low + (short_product * 0x1.0e80ff5d27f05p-27 + rest * 0.9617966939259756)};
}

/// erf(a) - a for 0 <= a < 1; erf(a) / a within 2^-57.
FACULA_FN double erf_rest(double a) {
  const double s = a * a, s2 = s * s, s4 = s2 * s2;
  const double high = (-7.795898827002142e-10 * s + 1.3720064546777686e-08) * s2 +
                      (-1.6208483801871705e-07 * s + 1.6447424703317362e-06);
  const double middle = (-1.492473690741966e-05 * s + 0.00012055294904839707) * s2 +
                        (-0.0008548325975389692 * s + 0.0052239776071164225);
  const double low = (-0.02686617064323777 * s + 0.11283791670945006) * s2 +
                     (-0.37612638903183543 * s + 0.1283791670955126);
  return ((high * s4 + middle) * s4 + low) * a;
}
/// e^(a^2) * erfc(a) for a in [1, 28.5]: p(t) / (a + 3) for t = (a - 3) / (a + 3), within 2^-51.
FACULA_FN double scaled_erfc(double a) {
  const double inverse = 1.0 / (a + 3.0), t = (a - 3.0) * inverse, t2 = t * t, t4 = t2 * t2;
  const double p0 = (-0.31046726189929424 * t + 0.5902283571041641) * t2 +
                    (-0.8833944531698934 * t + 1.0740069070883396);
  const double p1 = (0.00303406275022911 * t - 0.0012124164805148523) * t2 +
                    (-0.02682723467171995 * t + 0.11952776128257883);
  const double p2 = (3.0416341011502746e-05 * t + 0.00010758193340147811) * t2 +
                    (-0.0002767835169624558 * t - 0.0005483120261792676);
  const double p3 = (8.306302293811416e-07 * t + 3.0096609922497694e-06) * t2 +
                    (-4.744222074529927e-06 * t - 1.756946926568844e-05);
  const double p4 = 6.620134732664351e-08 * t - 6.340889769297512e-07;
  return ((((p4 * t4 + p3) * t4 + p2) * t4 + p1) * t4 + p0) * inverse;
}
/// e^-(high + low) for high >= 0 and 0 <= low < 2^-14.
FACULA_FN double exp_of_negative(double high, double low) {
  const auto [r, r_low, shifted] = reduce_exp(at_least(-high, -746.0), kRoundDoubleToScale);
  return scale(expm1_reduced(r - low), shifted);
}

/// Common are normal bases above 0 with exponents below 2^10.
FACULA_FN uint32_t pow_rarity(double a, double b) {
  const auto base = static_cast<uint32_t>(as_bits(a) >> 32) - 0x00100000u;
  const auto exponent = static_cast<uint32_t>(as_bits(abs(b)) >> 32);
  return max((base >> 1) + (kRareLogarithm - 0x3ff00000u),
             exponent + (kRareLogarithm - 0x40900000u));
}

}  // namespace detail

FACULA_FN double exp(double x) {
  const double t = detail::at_most(detail::at_least(x, -746.0), 710.0);
  const auto [r, low, shifted] = detail::reduce_exp(t, detail::kRoundDoubleToScale);
  return detail::scale(detail::expm1_reduced(r), shifted);
}

FACULA_FN double exp2(double x) {
  const double t = detail::at_most(detail::at_least(x, -1076.0), 1025.0);
  const double shifted = t + detail::kRoundDoubleToScale;
  const double r = t - (shifted - detail::kRoundDoubleToScale);  // |r| <= 1/2
  return detail::scale(detail::expm1_reduced(r * 0.6931471805599453), shifted);
}

FACULA_FN double expm1(double x) {
  const auto [high, low] = detail::half_expm1(detail::at_most(detail::at_least(x, -40.0), 710.0));
  return select(abs(x) >= 0x1p-54, high + high, x);
}

FACULA_FN double common_log(double x) { return detail::log_sum(detail::normal_log_terms(x)); }
FACULA_FN double log(double x) {
  return detail::log_specials(x, detail::log_sum(detail::log_terms(x)));
}
FACULA_FN double log2(double x) {
  return detail::log_specials(x, detail::log2_sum(detail::log_terms(x)));
}
FACULA_FN double log10(double x) {
  return detail::log_specials(x, detail::log10_sum(detail::log_terms(x)));
}
FACULA_FN double log1p(double x) {
  const double u = x + 1.0;
  const double lost = x - (u - 1.0);  // u + lost = 1 + x
  const auto [f, n] = detail::normal_log_terms(u);
  // From n = 55 on, nothing is lost.
  const double down = detail::power(detail::kRoundDoubleToPower - detail::at_most(n, 60.0));
  const double y = detail::log_sum(detail::DoubleLogTerms{f + lost * down, n});
  return copysign(detail::log_specials(u, y), x);
}

/// log(1 + e^x) for x <= 0.
FACULA_FN double log1p_exp(double x) {
  const double z = exp(x);
  const bool large = z > 0.41421356237309503;  // 1 + z > sqrt(2)
  return detail::log_sum(
      detail::DoubleLogTerms{select(large, (z - 1.0) * 0.5, z), select(large, 1.0, 0.0)});
}

/// 1 / (1 + e^|x|) = 2^k / (e^-r + 2^k) for -|x| = k * ln2 + r, the numerator scaled so that it
/// never underflows, is the result or, for positive x, what it lacks of 1.
FACULA_FN double sigmoid(double x) {
  const double t = detail::at_least(-abs(x), -746.0);
  const auto [r, low, shifted] = detail::reduce_exp(t, detail::kRoundDoubleToPower + 60);
  const double scaled_power = detail::power(shifted);
  // For 2^k from 2^-52 on, the sum is exact.
  const auto [sum, rest] = detail::sum_of(1.0, scaled_power * 0x1p-60);
  const double denominator = sum + (detail::expm1_reduced(-r) + rest);
  const double tail = scaled_power / denominator * 0x1p-60;
  return select(x > 0.0, 1.0 - tail, tail);
}

/// y = h / (h + 1) for h = (e^2|x| - 1) / 2, for small h as h - h * y with what rounding took from
/// h, of which 1 - 2 y remains.
FACULA_FN double tanh(double x) {
  const auto [h, low] = detail::half_expm1(2.0 * detail::at_most(abs(x), 20.0));
  const double y = h / (h + 1.0);
  const double near = h - (h * y - (low - 2.0 * y * low));
  return copysign(select(h < 0.34, near, y), x);
}

FACULA_FN double erf(double x) {
  const double a = detail::at_most(abs(x), 6.0);
  const double lack = detail::exp_of_negative(a * a, 0.0) * detail::scaled_erfc(a);
  return copysign(select(a < 1.0, detail::erf_rest(a) + a, 1.0 - lack), x);
}

/// (1 + erf(x / sqrt(2))) / 2. In the lower tail the square comes in two parts, the first exact.
FACULA_FN double normal_cdf(double x) {
  const double m = detail::at_most(abs(x), 40.0), a = m * 0.7071067811865476;
  const double front = detail::short_of(m), rest = (m - front) * (m + front);
  const double tail =
      detail::exp_of_negative(front * front * 0.5, rest * 0.5) * detail::scaled_erfc(a) * 0.5;
  const double near = 0.5 + copysign((detail::erf_rest(a) + a) * 0.5, x);
  return select(a < 1.0, near, select(x < 0.0, tail, 1.0 - tail));
}

/// (2^k - 2^-k) / 2 * cosh(r) + (2^k + 2^-k) / 2 * sinh(r), in which the multiples of 1 and r
/// are summed exactly, the rest is within 2^-58. Half of it is finite where the result is.
FACULA_FN double sinh(double x) {
  const double magnitude = detail::at_most(abs(x), 710.6);
  const auto [r, r_low, shifted] = detail::reduce_exp(magnitude, detail::kRoundDoubleToPower - 2);
  const double up = detail::power(shifted);
  // 2^-k / 4 is zero where it counts no more
  const double down = detail::power(
      detail::at_least(2.0 * (detail::kRoundDoubleToPower - 2) - shifted, detail::kRoundDouble));
  const double even = up - down, odd = up + down, s = r * r;
  const double sinh_rest =
      ((((2.5109034358480243e-08 * s + 2.755724420947001e-06) * s + 0.0001984126988613403) * s +
        0.008333333333321624) *
           s +
       0.16666666666666677) *
          (s * r) +
      r_low;
  const double cosh_rest =
      ((((2.7631335316886343e-07 * s + 2.4801489760902368e-05) * s + 0.0013888888947227143) * s +
        0.041666666666514404) *
           s +
       0.5000000000000013) *
      s;
  const auto [first, first_low] = detail::sum_of(even, up * r);
  const auto [second, second_low] = detail::sum_of(first, down * r);
  const double half = second + ((even * cosh_rest + odd * sinh_rest) + (first_low + second_low));
  return copysign(select(magnitude >= 0x1p-27, half + half, magnitude), x);
}
/// 2 (q + 1 / (16 q)) for q = e^|x| / 4, which is finite where the result is.
FACULA_FN double cosh(double x) {
  const double magnitude = detail::at_most(abs(x), 710.6);
  const auto [r, low, shifted] = detail::reduce_exp(magnitude, detail::kRoundDoubleToPower - 2);
  const double power = detail::power(shifted), q = detail::expm1_reduced(r) * power + power;
  return 2.0 * (q + 0.0625 / q);
}

/// Of |x| < 2^20; loops may compute them alone. The C library takes the others.
FACULA_FN double common_sin(double x) {
  return detail::small_sin(detail::reduce_small_angle(x), 0);
}
FACULA_FN double common_cos(double x) {
  return detail::small_sin(detail::reduce_small_angle(x), 1);
}
FACULA_FN double sin(double x) {
  return abs(x) < detail::kSmallDoubleAngle ? common_sin(x) : ::sin(x);
}
FACULA_FN double cos(double x) {
  return abs(x) < detail::kSmallDoubleAngle ? common_cos(x) : ::cos(x);
}

/// a to the power b for normal a > 0 and |b| < 2^10; the C library takes the others.
FACULA_FN double common_pow(double a, double b) {
  const auto [high, low] = detail::log2_pair(a);
  const double a_high = detail::short_of(high + low), a_low = (high - a_high) + low;
  const double b_high = detail::short_of(b), b_low = b - b_high;
  const double product = b_high * a_high, product_low = b_low * a_high + b * a_low;
  const double t = detail::at_most(detail::at_least(product + product_low, -1100.0), 1030.0);
  const double shifted = t + detail::kRoundDoubleToScale;
  const double first = product - (shifted - detail::kRoundDoubleToScale);
  const double r = detail::at_most(detail::at_least(first + product_low, -0.51), 0.51);
  return detail::scale(detail::expm1_reduced(r * 0.6931471805599453), shifted);
}
FACULA_FN double pow(double a, double b) {
  return detail::pow_rarity(a, b) < detail::kRareLogarithm ? common_pow(a, b) : ::pow(a, b);
}

}  // namespace facula::scalar
