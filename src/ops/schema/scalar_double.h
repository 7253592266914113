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

/// m * 2^k for m in [2^-6, 2] and k = shifted - kRoundDoubleToScale in [-1100, 1030], in two
/// factors, see powers_of_two().
FACULA_FN double times_power(double m, double shifted) {
  const uint64_t bits = as_bits(shifted);  // the lowest are 2046 + k
  const uint64_t half = (bits >> 1) << 52;
  const double first = as_float(static_cast<int64_t>(half));
  const double second = as_float(static_cast<int64_t>((bits << 52) - half));
  return m * first * second;
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

/// tan(angle) from t = tan(r / 2), whose polynomial is within 2^-62 of itself, and what rounding
/// took from it: 2 t / (1 - t^2) as 2 t (1 + t^2 / (1 - t^2)) or, for odd n, (t - 1/t) / 2, where
/// the inverse is that of a short number and completed by its exact remainder.
FACULA_FN double small_tan(DoubleAngle angle) {
  const double h = 0.5 * angle.r, s = h * h, s2 = s * s;
  const double high = (0.00013348555538051507 * s + 0.00022641606815721656) * s2 +
                      (0.0005924016954190282 * s + 0.0014555696265021495);
  const double middle = (0.0035921461983752937 * s + 0.008863234774192113) * s2 +
                        (0.021869488554173044 * s + 0.0539682539680362);
  const double p =
      (high * (s2 * s2) + middle) * s2 + (0.13333333333333436 * s + 0.3333333333333333);
  const auto [t, t_low] = sum_of(h, p * (s * h) + 0.5 * angle.low);
  const double square = t * t, short_t = short_of(t);
  const bool odd = as_float(static_cast<int64_t>((angle.n & 1) << 62)) != 0.0;
  const double q = select(odd, 1.0, square) / select(odd, short_t, 1.0 - square);
  const double even = t + (t * q + t_low * (1.0 + 3.0 * square));
  const double q_high = short_of(q);
  const double remainder = (1.0 - q_high * short_t) - (q - q_high) * short_t;
  const double longer = ((t - short_t) + t_low) * q;  // than the short number, of itself
  const auto [sum, sum_low] = sum_of(-q, t);
  const double odd_sum = sum + (sum_low - q * (remainder - (longer - longer * longer)));
  return select(odd, 0.5 * odd_sum, copysign(2.0 * even, angle.r));
}

/// Below `rare` where |x| < kSmallDoubleAngle.
FACULA_FN uint32_t angle_rarity(double x, uint32_t rare) {
  constexpr uint32_t end = __builtin_bit_cast(uint64_t, kSmallDoubleAngle) >> 32;
  return static_cast<uint32_t>(as_bits(abs(x)) >> 32) + (rare - end);
}

/// What belongs to the one of the tangents 0, 1/2, 1, 3/2 and infinity that `a` is near to.
FACULA_FN double of_nearest_tangent(double a, double zero, double half, double one,
                                    double three_halves, double infinity) {
  const double beyond_one = select(a < 2.4375, three_halves, infinity);
  const double beyond_half = select(a < 1.1875, one, beyond_one);
  return select(a < 0.4375, zero, select(a < 0.6875, half, beyond_half));
}

/// atan(s) - s for |s| <= 7/16, within 2^-57 of atan(s).
FACULA_FN double atan_rest(double s) {
  const double z = s * s, z2 = z * z, z4 = z2 * z2;
  const double high = (0.014773184616983806 * z - 0.033128134256069586) * z2 +
                      (0.04492259293193656 * z - 0.05216679739313656);
  const double middle = (0.05876946456755061 * z - 0.06666241923359964) * z2 +
                        (0.07692285554889286 * z - 0.09090908355602592);
  const double low = (0.11111111096645038 * z - 0.14285714285566806) * z2 +
                     (0.1999999999999941 * z - 0.3333333333333333);
  return ((high * z4 + middle) * z4 + low) * (s * z);
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

/// erf(a) - a for |a| < 1; erf(a) / a within 2^-57.
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
/// log((a + 2.5) e^(a^2) erfc(a)) of a in [0.79, 28.5], t + t_low being (a - 2.5) / (a + 2.5), but
/// for kErfcSlope * t. The whole is within 2^-59.
inline constexpr double kErfcSlope = -0x1.86dcd8p-1;
FACULA_FN double erfc_exponent(double t, double t_low) {
  const double t2 = t * t, t4 = t2 * t2;
  const double p0 = (0.017983809878003132 * t + 0.139252906964546) * t2 +
                    (-1.0083344437195052e-07 * t + (0.05262263970683601 + kErfcSlope * t_low));
  const double p1 = (-0.0011575351876645166 * t + 0.004720977023966084) * t2 +
                    (0.0019463315876779661 * t - 0.023787984322093014);
  const double p2 = (-0.0001172964521069224 * t + 0.0002545212077155558) * t2 +
                    (0.0003951968003678963 * t - 0.0010479623264551229);
  const double p3 = (-7.865326684930323e-06 * t + 1.7923200338740915e-05) * t2 +
                    (3.182393743640328e-05 * t - 6.631508373909315e-05);
  const double p4 = (-3.795542999858679e-07 * t + 1.1688565382265263e-06) * t2 +
                    (1.7571557601655523e-06 * t - 4.7783293119868186e-06);
  const double p5 = 8.449675814472128e-08 * t - 2.1222375530530108e-07;
  return ((((p5 * t4 + p4) * t4 + p3) * t4 + p2) * t4 + p1) * t4 + p0;
}
/// erfc(a) for a in [0.79, 28.5], where square + square_low is a^2, within 2^-50 of itself.
FACULA_FN double erfc_tail(double a, double square, double square_low) {
  const double inverse = 1.0 / (a + 2.5), t = (a - 2.5) * inverse;
  const double p = kErfcSlope * t + erfc_exponent(t, 0.0);
  const auto [exponent, low] = sum_of(at_least(-square, -746.0), p);
  const auto [r, r_low, shifted] = reduce_exp(exponent, kRoundDoubleToScale);
  const double power = expm1_reduced(r + (r_low + (low - square_low)));
  return times_power(power * inverse + inverse, shifted);
}
/// The same within 1.8 ulp. The inverse of a + 2.5 is a short number and lacks `lack` of itself; so
/// t is the sum of a short number, whose product with the slope is exact, and a small one.
FACULA_FN double exact_erfc_tail(double a) {
  const double inverse = short_of(1.0 / (a + 2.5)), a_high = short_of(a), a_low = a - a_high;
  const double rest = ((1.0 - 2.5 * inverse) - a_high * inverse) - a_low * inverse;
  const double lack = rest + rest * rest;
  const double t = 1.0 - 5.0 * inverse, t_low = -5.0 * inverse * lack;
  const auto [most, most_low] = sum_of(-(a_high * a_high), kErfcSlope * t);
  const auto [exponent, exponent_low] = sum_of(most, erfc_exponent(t + t_low, t_low));
  const auto [near, near_low, shifted] = reduce_exp(exponent, kRoundDoubleToScale);
  const double lows = ((most_low + exponent_low) - a_low * (a + a_high)) + near_low;
  const auto [r, r_low] = sum_of(near, lows + (lack - lack * lack * 0.5));
  const auto [power, power_low] = sum_of(r, exp_rest(r, r * r) * (r * r));  // of e, less 1
  return times_power((power * inverse + (power_low + r_low) * inverse) + inverse, shifted);
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
  return detail::times_power(detail::expm1_reduced(r) + 1.0, shifted);
}

FACULA_FN double exp2(double x) {
  const double t = detail::at_most(detail::at_least(x, -1076.0), 1025.0);
  const double shifted = t + detail::kRoundDoubleToScale;
  const double r = t - (shifted - detail::kRoundDoubleToScale);  // |r| <= 1/2
  return detail::times_power(detail::expm1_reduced(r * 0.6931471805599453) + 1.0, shifted);
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
  const double far = 1.0 - detail::erfc_tail(a, a * a, 0.0);
  return copysign(select(a < 0.8, detail::erf_rest(a) + a, far), x);
}
FACULA_FN double erfc(double x) {
  const double a = detail::at_most(abs(x), 27.25);  // erfc of which is 0
  const double near = (1.0 - x) - detail::erf_rest(x), tail = detail::exact_erfc_tail(a);
  return select(a < 0.8, near, select(x < 0.0, 2.0 - tail, tail));
}

/// (1 + erf(x / sqrt(2))) / 2.
FACULA_FN double normal_cdf(double x) {
  const double m = detail::at_most(abs(x), 40.0), a = m * 0.7071067811865476;
  const double front = detail::short_of(m), rest = (m - front) * (m + front);
  const double tail = detail::erfc_tail(a, front * front * 0.5, rest * 0.5) * 0.5;
  const double near = 0.5 + copysign((detail::erf_rest(a) + a) * 0.5, x);
  return select(a < 0.8, near, select(x < 0.0, tail, 1.0 - tail));
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
FACULA_FN double common_tan(double x) { return detail::small_tan(detail::reduce_small_angle(x)); }
FACULA_FN double sin(double x) {
  return abs(x) < detail::kSmallDoubleAngle ? common_sin(x) : ::sin(x);
}
FACULA_FN double cos(double x) {
  return abs(x) < detail::kSmallDoubleAngle ? common_cos(x) : ::cos(x);
}
FACULA_FN double tan(double x) {
  return abs(x) < detail::kSmallDoubleAngle ? common_tan(x) : ::tan(x);
}

/// The angle of the nearest tangent c and that of (|x| - c) / (1 + c |x|).
FACULA_FN double atan(double x) {
  using detail::of_nearest_tangent;
  const double a = abs(x);
  const double numerator = of_nearest_tangent(a, a, 2.0 * a - 1.0, a - 1.0, a - 1.5, -1.0);
  const double denominator = of_nearest_tangent(a, 1.0, 2.0 + a, 1.0 + a, 1.0 + 1.5 * a, a);
  const double angle = of_nearest_tangent(a, 0.0, 0x1.dac670561bb4fp-2, 0x1.921fb54442d18p-1,
                                          0x1.f730bd281f69bp-1, 0x1.921fb54442d18p0);
  const double angle_low = of_nearest_tangent(a, 0.0, 2.2698777452961687e-17, 3.061616997868383e-17,
                                              1.3903311031230998e-17, 6.123233995736766e-17);
  const double s = numerator / denominator;
  return copysign(angle + (s + (detail::atan_rest(s) + angle_low)), x);
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
  return detail::times_power(detail::expm1_reduced(r * 0.6931471805599453) + 1.0, shifted);
}
FACULA_FN double pow(double a, double b) {
  return detail::pow_rarity(a, b) < detail::kRareLogarithm ? common_pow(a, b) : ::pow(a, b);
}

}  // namespace facula::scalar
