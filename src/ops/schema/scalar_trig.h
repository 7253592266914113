// Scalars of the op vocabulary, part 4: sin, cos, tan and atan, by the rules of part 3, but
// for huge angles, which work in double inside: vectors are half as long, and no trick is needed
// for the last bit.
#pragma once

#include "ops/schema/scalar_math.h"

namespace facula::scalar {
namespace detail {

template <class... C>
FACULA_FN double horner(double x, double sum, double next, C... rest) {
  return horner(x, sum * x + next, rest...);
}

/// For |x| < kSmallAngle: x = n * pi/2 + r with |r| <= pi/4, n modulo 4 in the lowest bits. pi/2
/// comes in three parts, of which the first leaves no rounding error.
struct SmallAngle {
  float r;
  int32_t n;
};
inline constexpr float kSmallAngle = 0x1p15f;
FACULA_FN SmallAngle reduce_small_angle(float x) {
  const float shifted = fma(x, 0.636619747f, kRound);
  const float n = shifted - kRound;
  const float r = fma(n, -0x1.4442dp-24f, fma(n, -0x1.921fb4p0f, x));
  return {fma(n, -0x1.846988p-48f, r), as_int(shifted)};
}

/// tan(x) for |x| < kSmallTanAngle, where F is float or a vector. x = n * pi/16 + r + low with |r|
/// <= pi/32, where low is what rounding took from r: of the three parts of pi/16 the first leaves
/// no rounding error, and that of the second is exact. For t = tan(r + low) and an angle a = n *
/// pi/16 the tangent is (sin(a) + cos(a) t) / (cos(a) - sin(a) t). Both may have a factor: of those
/// with which sine and cosine are floats within 2^-33 the one is taken with which the error is
/// least. Zeros keep their sign.
inline constexpr float kSmallTanAngle = 0x1p11f;
template <class F>
FACULA_FN static F near_tan(F x) {
  static constexpr float sines[16] = {
      -0.0f, 0.38889048f, 0.7904103f, 1.2525057f, 1.9927927f, 2.972168f,  3.8270564f, 7.091907f,
      1.0f,  7.091907f,   3.8270564f, 2.972168f,  1.9927927f, 1.2525057f, 0.7904103f, 0.38889048f};
  static constexpr float cosines[16] = {1.0f,        1.9550844f,  1.9082192f,  1.8745072f,
                                        1.9927927f,  1.9859391f,  1.5852187f,  1.410668f,
                                        0.0f,        -1.410668f,  -1.5852187f, -1.9859391f,
                                        -1.9927927f, -1.8745072f, -1.9082192f, -1.9550844f};
  const F shifted = fma(x, K<F>(5.09295797f), K<F>(kRound)), n = shifted - K<F>(kRound);
  const F rest = fnma(n, K<F>(0x1.921fb4p-3f), x), r = fnma(n, K<F>(0x1.444p-27f), rest);
  const F minus_low = fma(n, K<F>(0x1.68c234p-42f), fma(n, K<F>(0x1.444p-27f), r - rest));
  const F s = r * r, p = fma(s, K<F>(0.13406405f), K<F>(0.33333114f));
  const F t = r - fnma(r * s, p, minus_low);
  const F sine = lookup(sines, as_bits(shifted)), cosine = lookup(cosines, as_bits(shifted));
  return fma(cosine, t, sine) / fnma(sine, t, cosine);
}

/// sin(angle + quarters * pi/2) but for the sign of zero: sin(r) = r + r * s * p(s) and cos(r) = 1
/// + s * p(s) for s = r^2. One polynomial serves both: choosing coefficients takes less than a
/// second one would. `base`, which has the sign of the result, is r or 1.
struct SmallSin {
  float y;
  uint32_t base;
};
FACULA_FN SmallSin small_sin(SmallAngle angle, uint32_t quarters) {
  const float r = angle.r, s = r * r;
  const uint32_t n = static_cast<uint32_t>(angle.n) + quarters;
  const bool odd = (n & 1) != 0;
  const float p = horner(
      s, select(odd, 2.443838e-05f, 2.7183044e-06f), select(odd, -1.3887367e-03f, -1.9839335e-04f),
      select(odd, 4.1666646e-02f, 8.333329e-03f), select(odd, -0.5f, -1.6666667e-01f));
  const uint32_t base = as_bits(select(odd, 1.0f, r)) ^ ((n & 2) << 30);
  return {fma(as_float(base) * s, p, as_float(base)), base};
}

/// kRound for double.
inline constexpr double kRoundDouble = 0x1.8p52;

/// x = (n + r) * pi/2 with |r| <= 1/2; n modulo 4 matters only.
struct Quadrant {
  double r, n;
};

/// t less its nearest multiple of 4, for products of at most 52 bits: all multiples beyond 2^53.
FACULA_FN double modulo4(double t) {
  const double rest = t - ((t + 0x1.8p54) - 0x1.8p54);
  return select(abs(t) < 0x1p53, rest, 0.0);
}

/// For every finite x (Payne & Hanek 1983): 2/pi is cut into pieces of 28 bits, so that the
/// products with the 24 bits of x are exact and lose their multiples of 4 exactly. Five pieces give
/// 2^-57 and more in the worst case; beyond 2^81 the first two contribute multiples of 4 only.
FACULA_FN Quadrant reduce_angle(float x) {
  const double v = x;
  const bool big = abs(v) >= 0x1p81;
  const double t0 = modulo4(v * select(big, 0x29fc275p-84, 0xa2f9836p-28));
  const double t1 = modulo4(v * select(big, 0x7d1f534p-112, 0xe4e4415p-56));
  const double t2 = modulo4(v * select(big, 0xddc0db6p-140, 0x29fc275p-84));
  const double t3 = v * select(big, 0x295993cp-168, 0x7d1f534p-112);
  const double t4 = v * select(big, 0x439041fp-196, 0xddc0db6p-140);
  const double n = ((t0 + t1 + t2) + kRoundDouble) - kRoundDouble;
  return {((((t0 - n) + t1) + t2) + t3) + t4, n};
}

struct SinCos {
  double sin, cos;
};
/// Of r * pi/2, |r| <= 1/2, within 2^-34.
FACULA_FN SinCos sincos_quadrant(double r) {
  const double a = r * 1.5707963267948966;
  const double s = a * a;
  return {a * horner(s, 2.7170758635205149e-06, -0.00019839169983601752, 0.0083333286622047659,
                     -0.16666666630155011, 0.99999999999540456),
          horner(s, 2.4371811844073159e-05, -0.0013886519548266904, 0.041666612905845515,
                 -0.49999999568038361, 0.99999999994335964)};
}

FACULA_FN bool is_odd(double n) {
  const double half = n * 0.5;
  return (half + kRoundDouble) - kRoundDouble != half;
}

/// sin((n + r) * pi/2).
FACULA_FN float sin_quadrant(double r, double n) {
  const auto [sin, cos] = sincos_quadrant(r);
  const double y = select(is_odd(n), cos, sin);
  const int64_t second_bit = as_int(n + kRoundDouble) << 62;
  constexpr int64_t sign_bit = std::numeric_limits<int64_t>::min();
  return static_cast<float>(as_float(as_int(y) ^ (second_bit & sign_bit)));
}

inline constexpr uint32_t kRareAngle = __builtin_bit_cast(uint32_t, kSmallAngle);

}  // namespace detail

// sin, cos and tan reduce every finite x exactly, huge ones included; NaN for infinities. For small
// angles they are common_sin, common_cos and near_tan, which loops may compute alone.
FACULA_FN float common_sin(float x) {
  const auto [y, base] = detail::small_sin(detail::reduce_small_angle(x), 0);
  return as_float(as_bits(y) | (base & 0x80000000u));  // -0 stays
}
FACULA_FN float common_cos(float x) {
  return detail::small_sin(detail::reduce_small_angle(x), 1).y;
}
FACULA_FN float sin(float x) {
  const auto [r, n] = detail::reduce_angle(x);
  const float large = select(abs(x) < detail::kInf, detail::sin_quadrant(r, n), detail::kNan);
  return select(abs(x) < detail::kSmallAngle, common_sin(x), large);
}
FACULA_FN float cos(float x) {
  const auto [r, n] = detail::reduce_angle(x);
  const float large = select(abs(x) < detail::kInf, detail::sin_quadrant(r, n + 1.0), detail::kNan);
  return select(abs(x) < detail::kSmallAngle, common_cos(x), large);
}
FACULA_FN float tan(float x) {
  const auto [r, n] = detail::reduce_angle(x);
  const auto [sin, cos] = detail::sincos_quadrant(r);
  const bool odd = detail::is_odd(n);
  const float y = static_cast<float>(select(odd, -cos, sin) / select(odd, sin, cos));
  const float large = select(abs(x) < detail::kInf, y, detail::kNan);
  return select(abs(x) < detail::kSmallTanAngle, detail::near_tan(x), large);
}

/// Of slopes in [0, 1] the same as atan().
FACULA_FN float atan_of_slope(float t) {
  const float s = t * t;
  const float p =
      detail::horner(s, -0.00179363729f, 0.0109146833f, -0.0311780069f, 0.0579577722f,
                     -0.0840346217f, 0.109521903f, -0.142642424f, 0.199985489f, -0.333332986f);
  return fma(p * s, t, t);
}
FACULA_FN float atan(float x) {
  const float a = abs(x);
  const bool large = a > 1.0f;
  const float y = atan_of_slope(select(large, -1.0f, a) / select(large, a, 1.0f));
  return copysign(select(large, 1.57079637f + y, y), x);
}

}  // namespace facula::scalar
