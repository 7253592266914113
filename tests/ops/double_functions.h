// The double functions of ops/schema/scalar.h beside the C library's of long double, and arguments
// for those who measure their error: scalar_math_test and benchmarks/math_accuracy.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "ops/schema/scalar.h"

namespace facula::testing {

using Extended = long double;

/// The distance of `got` from `want` in units of the last place of a double of want's size, where
/// infinity counts as 2^1024.
inline double ulp_error(double got, Extended want) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const double rounded = static_cast<double>(want);
  if (std::isnan(got) || std::isnan(rounded)) {
    return std::isnan(got) && std::isnan(rounded) ? 0 : kInfinite;
  }
  if (got == rounded && std::signbit(got) != std::signbit(rounded)) return kInfinite;
  if (got == rounded && std::isinf(got)) return 0;
  const auto finite = [](Extended x) { return std::isinf(x) ? std::copysign(0x1p1024L, x) : x; };
  const int exponent = std::clamp(rounded == 0 ? -1022 : std::ilogb(rounded), -1022, 1023);
  const Extended difference = finite(got) - finite(want);
  return static_cast<double>(std::abs(difference) / std::ldexp(Extended{1}, exponent - 52));
}

inline double two_to(double exponent) { return std::ldexp(1.0, static_cast<int>(exponent)); }

/// `draws` times numbers from low to high, small ones of all magnitudes, those near 1, and random
/// bits; numbers where a formula or the range ends with their neighbours, and the special ones.
inline std::vector<double> double_arguments(double low, double high, uint64_t seed, int draws) {
  std::mt19937_64 bits(seed);
  std::uniform_real_distribution<double> uniform(low, high), magnitude(-1080, 0), near(-50, 0),
      between(-3, 3);
  std::vector<double> values;
  for (int i = 0; i < draws; ++i) {
    values.push_back(uniform(bits));
    values.push_back(uniform(bits) * two_to(magnitude(bits)));
    values.push_back(uniform(bits) * two_to(near(bits)));
    values.push_back(1 + between(bits) * two_to(near(bits)));
    values.push_back(between(bits));
    values.push_back(std::bit_cast<double>(bits()));
  }
  constexpr double kLargest = std::numeric_limits<double>::max();
  for (const double edge :
       {0.0,      5e-324,     0x1p-1022,  0x1p-54,    0x1p-53,  0x1p-27, 0.25917,    0.34,
        0.34657,  0.41421356, 0.4375,     0.5,        0.6875,   0.69315, 0.70710678, 0.8,
        1.0,      1.03972,    1.1875,     1.41421356, 1.570796, 2.0,     2.4375,     3.141593,
        20.0,     27.25,      36.73,      37.43,      40.0,     708.396, 709.7827,   710.4758,
        711.0,    744.44,     745.1332,   746.0,      1022.0,   1023.5,  1024.0,     1074.0,
        1075.0,   0x1p20,     0x1p20 + 1, 0x1p52,     0x1p53,   0x1p54,  1e22,       0x1p1000,
        kLargest, HUGE_VAL}) {
    const auto center = std::bit_cast<int64_t>(edge);
    for (int64_t offset = -20; offset <= 20; ++offset) {
      const double value = std::bit_cast<double>(center + offset);
      for (const double x : {value, value * (1 + 1e-9 * static_cast<double>(offset))}) {
        values.push_back(x);
        values.push_back(-x);
      }
    }
  }
  return values;
}

/// A function of one argument.
struct DoubleUnary {
  const char* name;
  double (*function)(double);
  Extended (*exact)(Extended);
  double low, high;  // most arguments
};

static const DoubleUnary kDoubleUnary[] = {
    {"exp", [](double x) { return scalar::exp(x); }, std::exp, -746, 710},
    {"exp2", [](double x) { return scalar::exp2(x); }, std::exp2, -1076, 1025},
    {"expm1", [](double x) { return scalar::expm1(x); }, std::expm1, -40, 710},
    {"log", [](double x) { return scalar::log(x); }, std::log, 0, 100},
    {"log1p", [](double x) { return scalar::log1p(x); }, std::log1p, -1, 100},
    {"log2", [](double x) { return scalar::log2(x); }, std::log2, 0, 100},
    {"log10", [](double x) { return scalar::log10(x); }, std::log10, 0, 100},
    {"sigmoid", [](double x) { return scalar::sigmoid(x); },
     [](Extended x) { return 1 / (1 + std::exp(-x)); }, -746, 50},
    {"tanh", [](double x) { return scalar::tanh(x); }, std::tanh, -20, 20},
    {"erf", [](double x) { return scalar::erf(x); }, std::erf, -6, 6},
    {"erfc", [](double x) { return scalar::erfc(x); }, std::erfc, -5, 28},
    {"sin", [](double x) { return scalar::sin(x); }, std::sin, -0x1p20, 0x1p20},
    {"cos", [](double x) { return scalar::cos(x); }, std::cos, -0x1p20, 0x1p20},
    {"tan", [](double x) { return scalar::tan(x); }, std::tan, -0x1p20, 0x1p20},
    {"atan", [](double x) { return scalar::atan(x); }, std::atan, -10, 10},
    {"sinh", [](double x) { return scalar::sinh(x); }, std::sinh, -711, 711},
    {"cosh", [](double x) { return scalar::cosh(x); }, std::cosh, -711, 711},
    {"rsqrt", [](double x) { return scalar::rsqrt(x); },
     [](Extended x) { return 1 / std::sqrt(x); }, 0, 100},
    {"log1p_exp", [](double x) { return scalar::log1p_exp(-std::abs(x)); },
     [](Extended x) { return std::log1p(std::exp(-std::abs(x))); }, -746, 0},
};

using DoublePair = std::pair<double, double>;

/// All pairs of special and common values.
inline std::vector<DoublePair> special_pairs() {
  const double some[] = {0.0,       -0.0,   1,        -1,      2,         -2,          0.5,
                         -0.5,      3,      -3,       1.5,     -2.5,      5e-324,      -5e-324,
                         0x1p-1022, 1024,   1023.999, -1074,   1e308,     -1e308,      0x1p53,
                         HUGE_VAL,  1e-300, 4.5e15,   1 / 3.0, -HUGE_VAL, std::nan("")};
  std::vector<DoublePair> pairs;
  for (const double a : some) {
    for (const double b : some) pairs.emplace_back(a, b);
  }
  return pairs;
}

/// Powers of all magnitudes, one half of bases near 1.
inline std::vector<DoublePair> power_pairs(uint64_t seed, int draws) {
  std::mt19937_64 bits(seed);
  std::uniform_real_distribution<double> logarithm(-1074, 1024), product(-1080, 1028), one(-1, 1);
  std::vector<DoublePair> pairs = special_pairs();
  for (int i = 0; i < draws; ++i) {
    const double a = std::exp2(logarithm(bits)), near = 1 + 0.3 * one(bits);
    pairs.emplace_back(a, product(bits) / std::log2(a));
    pairs.emplace_back(near, product(bits) / std::log2(near));
    pairs.emplace_back(near, 1030 * one(bits));
    pairs.emplace_back(1 + one(bits) * 1e-9, 1023.9);
    pairs.emplace_back(std::bit_cast<double>(bits()), std::bit_cast<double>(bits()));
  }
  return pairs;
}

/// Points near the origin, of any distance with coordinates of similar magnitude, and random bits.
inline std::vector<DoublePair> points(uint64_t seed, int draws) {
  std::mt19937_64 bits(seed);
  std::uniform_real_distribution<double> distance(-1070, 1020), place(-4, 4);
  std::vector<DoublePair> pairs = special_pairs();
  for (int i = 0; i < draws; ++i) {
    const double y = place(bits), far = y * std::exp2(distance(bits));
    pairs.emplace_back(y, place(bits));
    pairs.emplace_back(far, far * place(bits));
    pairs.emplace_back(std::bit_cast<double>(bits()), std::bit_cast<double>(bits()));
  }
  return pairs;
}

/// A function of two arguments.
struct DoubleBinary {
  const char* name;
  double (*function)(double, double);
  Extended (*exact)(Extended, Extended);
  std::vector<DoublePair> (*pairs)(uint64_t seed, int draws);
};

static const DoubleBinary kDoubleBinary[] = {
    {"pow", [](double a, double b) { return scalar::pow(a, b); }, std::pow, power_pairs},
    {"atan2", [](double a, double b) { return scalar::atan2(a, b); }, std::atan2, points},
};

}  // namespace facula::testing
