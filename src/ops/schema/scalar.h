// The vocabulary in which every elementwise op is written, once for all devices.
//
// A functor is a struct in namespace facula::scalar whose call operator is a template over the
// scalar type T:
//
//   struct SoftplusFn {
//     double beta, threshold;
//     template <class T>
//     FACULA_FN T operator()(T x) const {
//       T bx = x * K<T>(beta);
//       T soft = log1p(exp(min(bx, K<T>(threshold)))) / K<T>(beta);
//       return select(bx > K<T>(threshold), x, soft);
//     }
//   };
//
// T is float, double, an integer type, bool, or Symbolic (ops/schema/symbolic.h), which records the
// expression. What a functor may use:
//
//   K<T>(c) infinity<T>() quiet_nan<T>()       constants; `x * 2.0` is rejected by Symbolic
//   + - * / and comparisons, & | ! of masks    no if, ?:, && or ||, so that loops vectorise
//   select(mask, a, b)                         both sides are evaluated
//   min max                                    NaN if either is NaN
//   abs sign copysign fma isnan isinf          fma: one rounding, slow on x86-64 before AVX2
//   floor ceil round trunc sqrt rsqrt          round: half to even
//   exp exp2 expm1 log log1p log2 log10        at most 2 ulp, all special values of C
//   log1p_exp                                  log(1 + e^x) for x <= 0
//   sin cos tan atan atan2 sinh cosh tanh      any finite angle
//   sigmoid erf erfc pow                       accurate in both tails
//   normal_cdf normal_pdf gelu                 absolutely accurate
//   gated                                      x * sigmoid(gate), the same
//   fmod remainder floor_divide                remainder has the sign of the divisor
//   as_int as_float                            bits; plain types only
//
// Float results have the same bits on every instruction set and compiler, except for the payload
// of NaN. Kernel translation units need -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off
// to vectorise without changing bits; -ffast-math would break both the special values and the
// rounding. The same holds for double, but for large angles and rare pairs of pow, which are the
// C library's.
//
// int8, int16 and uint8 follow C: arithmetic yields int, so that a product is passed on as T(x *
// y).
#pragma once

#include "ops/schema/scalar_base.h"
#include "ops/schema/scalar_double.h"
#include "ops/schema/scalar_math.h"
#include "ops/schema/scalar_trig.h"

namespace facula::scalar {

// The rest of double.
FACULA_FN double normal_pdf(double x) { return 0.3989422804014327 * exp(-0.5 * x * x); }
// Beyond -40 the second factor is 0, and infinity is not to meet it.
FACULA_FN double gelu(double x) { return max(x, -40.0) * normal_cdf(x); }

/// Remainder with the sign of the dividend. The C library's is exact, hence the same everywhere; it
/// does not vectorise.
FACULA_FN float fmod(float a, float b) { return ::fmodf(a, b); }
FACULA_FN double fmod(double a, double b) { return ::fmod(a, b); }

namespace detail {

/// The remainder with the sign of the divisor, from the one with that of the dividend.
template <Real T>
FACULA_FN T turned_to_divisor(T rest, T b) {
  return select((rest != T(0)) & ((rest < T(0)) != (b < T(0))), rest + b, rest);
}

/// Common are quotients of at most 2^21, whose floor_divide() is exact: the difference is not
/// negative. With infinities, NaN or the largest divisors it is infinite or NaN, hence rare as
/// well.
FACULA_FN uint32_t quotient_rarity(float a, float b) {
  return as_bits(fma(abs(b), 0x1p21f, -abs(a)));
}
inline constexpr uint32_t kRareQuotient = __builtin_bit_cast(uint32_t, kInf);
FACULA_FN uint32_t quotient_rarity(double a, double b) {
  // Twice as much, so that products with a divisor that is rounded up are finite.
  const auto high = static_cast<uint32_t>(as_bits(abs(b) * 0x1p22 - abs(a) * 2.0) >> 32);
  return (high >> 1) + (kRareQuotient - (0x7ff00000u >> 1));
}

/// |a| = quotient * |b| + rest of a common quotient, exactly.
struct DoubleDivision {
  double quotient, rest;
};
FACULA_FN DoubleDivision divide(double a, double b) {
  const double dividend = abs(a), divisor = abs(b), ratio = dividend / divisor;
  const double nearest = (ratio + kRoundDouble) - kRoundDouble;
  const double n = nearest - select(nearest > ratio, 1.0, 0.0);
  // Products with the divisor's upper half, which is rounded up, are exact. So is the difference:
  // it is below the divisor and a multiple of that one's last place.
  const double high =
      as_float(static_cast<int64_t>((as_bits(divisor) + 0x7ffffff) & ~0x7ffffffull));
  const double rest = (dividend - n * high) + n * (high - divisor);
  const bool beyond = rest < 0.0;  // the ratio was rounded up
  return {n - select(beyond, 1.0, 0.0), rest + select(beyond, divisor, 0.0)};
}

}  // namespace detail

/// Remainder with the sign of the divisor (Python's %, torch.remainder).
template <Real T>
FACULA_FN T remainder(T a, T b) {
  return detail::turned_to_divisor(fmod(a, b), b);
}

/// The quotient that belongs to remainder(), rounded down (torch.floor_divide): computed from
/// the exact remainder, as a / b may round up to the next integer.
template <Real T>
FACULA_FN T floor_divide(T a, T b) {
  const T rest = fmod(a, b);
  const bool crosses = (rest != T(0)) & ((rest < T(0)) != (b < T(0)));
  const T quotient = (a - rest) / b - select(crosses, T(1), T(0));
  const T down = floor(quotient);
  const T nearest = down + select(quotient - down > T(0.5), T(1), T(0));
  const T integral = select(quotient == T(0), copysign(T(0), a / b), nearest);
  return select(b == T(0), a / b, integral);
}

// The same for common quotients, which loops may compute alone. Rounding takes a quotient to the
// next integer at most; the sign of what is left, which fma gets right, tells whether it did.
FACULA_FN float common_fmod(float a, float b) {
  const float dividend = abs(a), divisor = abs(b);
  const float rest = fma(-trunc(dividend / divisor), divisor, dividend);
  // As unsigned integers, negative floats are larger than positive ones.
  const uint32_t bits = min(as_bits(rest), as_bits(rest + divisor));
  return copysign(as_float(bits), a);
}
FACULA_FN float common_remainder(float a, float b) {
  return detail::turned_to_divisor(common_fmod(a, b), b);
}
FACULA_FN float common_floor_divide(float a, float b) {
  const float quotient = floor(a / b);
  const float rest = fma(-quotient, b, a);
  const bool crosses = (rest != 0.0f) & ((rest < 0.0f) != (b < 0.0f));
  return quotient - select(crosses, 1.0f, 0.0f);
}
FACULA_FN double common_fmod(double a, double b) { return copysign(detail::divide(a, b).rest, a); }
FACULA_FN double common_remainder(double a, double b) {
  return detail::turned_to_divisor(common_fmod(a, b), b);
}
FACULA_FN double common_floor_divide(double a, double b) {
  const auto [quotient, rest] = detail::divide(a, b);
  const bool negative = (copysign(1.0, a) < 0.0) != (copysign(1.0, b) < 0.0);
  const double down = quotient + select(negative & (rest != 0.0), 1.0, 0.0);
  return select(negative, -down, down);
}

// Integers. Division by zero gives 0 (like NumPy) instead of a trap; lowest / -1 wraps.
namespace detail {

template <Integer T>
FACULA_FN T truncated_quotient(T a, T b) {
  if constexpr (std::numeric_limits<T>::is_signed) {
    const bool minus_one = b == T(-1);
    const T quotient = a / select((b == T(0)) | minus_one, T(1), b);
    const T negated = static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
    return select(b == T(0), T(0), select(minus_one, negated, quotient));
  } else {
    return select(b == T(0), T(0), static_cast<T>(a / select(b == T(0), T(1), b)));
  }
}

}  // namespace detail

template <Integer T>
FACULA_FN T fmod(T a, T b) {
  const uint64_t product =
      static_cast<uint64_t>(detail::truncated_quotient(a, b)) * static_cast<uint64_t>(b);
  return select(b == T(0), T(0), static_cast<T>(static_cast<uint64_t>(a) - product));
}
template <Integer T>
FACULA_FN T remainder(T a, T b) {
  const T rest = fmod(a, b);
  return select((rest != T(0)) & ((rest < T(0)) != (b < T(0))), static_cast<T>(rest + b), rest);
}
template <Integer T>
FACULA_FN T floor_divide(T a, T b) {
  const T rest = fmod(a, b);
  const bool crosses = (rest != T(0)) & ((rest < T(0)) != (b < T(0)));
  return static_cast<T>(detail::truncated_quotient(a, b) - select(crosses, T(1), T(0)));
}
/// Wraps on overflow. A negative exponent gives the reciprocal rounded towards zero: 1, -1 or 0.
template <Integer T>
FACULA_FN T pow(T a, T b) {
  const bool odd = (b & T(1)) != T(0);
  if (b < T(0)) return select(a == T(1), T(1), select(a == T(-1), select(odd, a, T(1)), T(0)));
  uint64_t power = 1;
  uint64_t square = static_cast<uint64_t>(a);
  for (uint64_t e = static_cast<uint64_t>(b); e != 0; e >>= 1) {
    power *= select((e & 1) != 0, square, uint64_t{1});
    square *= square;
  }
  return static_cast<T>(power);
}

template <class T>
FACULA_FN T log1p_exp(T x) {
  return log1p(exp(x));
}
template <class T>
FACULA_FN T gated(T x, T gate) {
  return x * sigmoid(gate);
}
template <class T>
FACULA_FN T atan_of_slope(T x) {
  return atan(x);
}

/// The angle of the point (b, a), with the special values of C: that of the smaller coordinate over
/// the larger one, added to or taken from the axis that the point is near to.
template <class T>
FACULA_FN T atan2(T a, T b) {
  const T up = abs(a), along = abs(b);
  const auto steep = up > along, left = copysign(K<T>(1), b) < K<T>(0);
  const T quotient = select(steep, along, up) / select(steep, up, along);
  const T slope =
      select((up == along) & !isnan(up), select(up == K<T>(0), K<T>(0), K<T>(1)), quotient);
  const T angle = atan_of_slope(slope);
  const T near_axis = select(left, K<T>(3.141592653589793) - angle, angle);
  const T away = K<T>(1.5707963267948966) + select(left, angle, -angle);
  return copysign(select(steep, away, near_axis), a);
}

}  // namespace facula::scalar
