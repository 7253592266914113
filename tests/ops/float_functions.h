// The float functions of ops/schema/scalar.h beside the C library's double ones, for those who
// measure their error: scalar_math_test and benchmarks/math_accuracy.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/schema/scalar.h"

namespace facula::testing {

/// The distance of `got` from `want` in units of the last place of a float of want's size.
inline double ulp_error(float got, double want) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (std::isnan(want) || std::isnan(got)) {
    return std::isnan(want) && std::isnan(got) ? 0 : kInf;
  }
  const float rounded = static_cast<float>(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    // Right, or next to the threshold of overflow, where infinity counts as 2^128.
    const double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
    return rounded == got ? 0 : std::abs(value - want) / 0x1p104;
  }
  if (got == 0 && rounded == 0) return std::signbit(got) == std::signbit(want) ? 0 : kInf;
  constexpr uint64_t kExponentBits = 0x7ff0'0000'0000'0000;
  const double binade = std::bit_cast<double>(std::bit_cast<uint64_t>(want) & kExponentBits);
  return std::abs(got - want) / (std::max(binade, 0x1p-126) * 0x1p-23);
}

/// A function of one argument.
struct Unary {
  const char* name;
  void (*loop)(const float* in, float* out, int n);
  double (*reference)(double);
  float low, high;  // arguments of the timing
};

// The loop that compilers vectorise, as in the kernels.
#define FACULA_LOOP(name)                                             \
  [](const float* __restrict in, float* __restrict out, int n) {      \
    for (int i = 0; i < n; ++i) out[i] = facula::scalar::name(in[i]); \
  }

static const Unary kUnary[] = {
    {"exp", FACULA_LOOP(exp), [](double x) { return std::exp(x); }, -10, 10},
    {"exp2", FACULA_LOOP(exp2), [](double x) { return std::exp2(x); }, -10, 10},
    {"expm1", FACULA_LOOP(expm1), [](double x) { return std::expm1(x); }, -10, 10},
    {"log", FACULA_LOOP(log), [](double x) { return std::log(x); }, 0.01f, 100},
    {"log1p", FACULA_LOOP(log1p), [](double x) { return std::log1p(x); }, -0.9f, 10},
    {"log2", FACULA_LOOP(log2), [](double x) { return std::log2(x); }, 0.01f, 100},
    {"log10", FACULA_LOOP(log10), [](double x) { return std::log10(x); }, 0.01f, 100},
    {"sigmoid", FACULA_LOOP(sigmoid), [](double x) { return 1 / (1 + std::exp(-x)); }, -10, 10},
    {"tanh", FACULA_LOOP(tanh), [](double x) { return std::tanh(x); }, -5, 5},
    {"erf", FACULA_LOOP(erf), [](double x) { return std::erf(x); }, -4, 4},
    {"erfc", FACULA_LOOP(erfc), [](double x) { return std::erfc(x); }, -4, 4},
    {"sin", FACULA_LOOP(sin), [](double x) { return std::sin(x); }, -100, 100},
    {"cos", FACULA_LOOP(cos), [](double x) { return std::cos(x); }, -100, 100},
    {"tan", FACULA_LOOP(tan), [](double x) { return std::tan(x); }, -100, 100},
    {"atan", FACULA_LOOP(atan), [](double x) { return std::atan(x); }, -10, 10},
    {"sinh", FACULA_LOOP(sinh), [](double x) { return std::sinh(x); }, -10, 10},
    {"cosh", FACULA_LOOP(cosh), [](double x) { return std::cosh(x); }, -10, 10},
    {"sqrt", FACULA_LOOP(sqrt), [](double x) { return std::sqrt(x); }, 0, 100},
    {"rsqrt", FACULA_LOOP(rsqrt), [](double x) { return 1 / std::sqrt(x); }, 0.01f, 100},
    {"round", FACULA_LOOP(round), [](double x) { return std::nearbyint(x); }, -100, 100},
    {"floor", FACULA_LOOP(floor), [](double x) { return std::floor(x); }, -100, 100},
    {"ceil", FACULA_LOOP(ceil), [](double x) { return std::ceil(x); }, -100, 100},
    {"trunc", FACULA_LOOP(trunc), [](double x) { return std::trunc(x); }, -100, 100},
};

#undef FACULA_LOOP

}  // namespace facula::testing
