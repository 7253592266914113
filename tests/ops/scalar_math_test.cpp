#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <facula/ops.h>

#define FACULA_KERNEL_TU
#include "ops/defs/softplus.h"
#undef FACULA_KERNEL_TU
#include "ops/schema/scalar.h"
#include "tests/ops/double_functions.h"
#include "tests/ops/float_functions.h"
#include "tests/support/problems.h"

namespace facula {
namespace {

using testing::double_arguments;
using testing::DoubleBinary;
using testing::DoubleUnary;
using testing::Extended;
using testing::kDoubleBinary;
using testing::kDoubleUnary;
using testing::kUnary;
using testing::ulp_error;
using testing::Unary;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();
constexpr double kMaxUlp = 2;

/// Equal bits, all NaN being one.
bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Every 4229th bit pattern, and 2000 neighbours of the arguments where a formula or the range
/// ends.
std::vector<float> arguments() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4229) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (const float edge :
       {0.0f,    1.0f,        2.0f,       0.25f,      0.35f,      0.5f,      0.5493062f, 0.7071068f,
        0.925f,  1.4142135f,  1.5707964f, 3.1415927f, 4.0f,       9.0f,      9.5f,       10.2f,
        13.26f,  16.635532f,  17.3f,      24.0f,      3.4475179f, 6.237699f, 80.0f,      88.72f,
        89.4f,   87.33f,      103.97f,    120.0f,     126.0f,     128.0f,    149.0f,     151.0f,
        1.1f,    2047.99988f, 0x1p-12f,   1.375f,     6.25f,      10.06f,    10.1f,      0x1p-24f,
        0x1p23f, 0x1p53f,     0x1p81f,    1e5f,       0x1p-126f,  kMax}) {
    const int32_t center = std::bit_cast<int32_t>(edge);
    for (int32_t offset = -1000; offset <= 1000; ++offset) {
      const uint32_t bits = static_cast<uint32_t>(center) + static_cast<uint32_t>(offset);
      values.push_back(std::bit_cast<float>(bits));
      values.push_back(std::bit_cast<float>(bits ^ 0x80000000u));
    }
  }
  return values;
}

std::vector<float> evaluate(const Unary& f, const std::vector<float>& in) {
  std::vector<float> out(in.size());
  f.loop(in.data(), out.data(), static_cast<int>(in.size()));
  return out;
}

const Unary& find(const std::string& name) {
  for (const Unary& f : kUnary) {
    if (name == f.name) return f;
  }
  throw std::out_of_range("no function " + name);
}

TEST(ScalarMath, UnaryFunctionsAreWithinTwoUlp) {
  FACULA_NOTHING_FOR_TSAN();
  const std::vector<float> in = arguments();
  for (const Unary& f : kUnary) {
    const std::vector<float> out = evaluate(f, in);
    double worst = 0;
    float at = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const double error = ulp_error(out[i], f.reference(in[i]));
      if (error > worst) {
        worst = error;
        at = in[i];
      }
    }
    EXPECT_LE(worst, kMaxUlp) << f.name << " at " << at << " = " << std::hexfloat << at;
  }
}

TEST(ScalarMath, NormalDistributionIsAbsolutelyAccurate) {
  FACULA_NOTHING_FOR_TSAN();
  constexpr double kError = 2e-7;
  for (const float x : arguments()) {
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(scalar::normal_cdf(x)) && std::isnan(scalar::normal_pdf(x)));
      EXPECT_TRUE(std::isnan(scalar::gelu(x)));
      continue;
    }
    ASSERT_NEAR(scalar::normal_cdf(x), scalar::normal_cdf(double{x}), kError) << x;
    ASSERT_NEAR(scalar::normal_pdf(x), scalar::normal_pdf(double{x}), kError) << x;
    if (x == kInf) continue;
    const double expected = scalar::gelu(double{x}), magnitude = std::abs(double{x});
    const double error = 9e-8 * std::min(magnitude, 1 + std::abs(expected)) + 0x1p-149;
    ASSERT_NEAR(scalar::gelu(x), expected, error) << x;
    if (x < 0 && x > -5.9f) {
      const double relative = x > -3 ? 3e-7 : 1e-4;
      ASSERT_NEAR(scalar::gelu(x), expected, relative * std::abs(expected) + 0x1p-149) << x;
    }
  }
  EXPECT_EQ(scalar::normal_cdf(-kMax), 0);
  EXPECT_EQ(scalar::normal_cdf(0.0f), 0.5f);
  EXPECT_EQ(scalar::normal_cdf(kInf), 1);
  EXPECT_EQ(scalar::normal_pdf(-kInf), 0);
  EXPECT_EQ(scalar::gelu(-kMax), 0);
  EXPECT_EQ(scalar::gelu(-kInf), 0);
  EXPECT_EQ(scalar::gelu(kInf), kInf);
}

TEST(ScalarMath, LogarithmsOfOneAndAPowerAreWithinTwoUlp) {
  for (const float x : arguments()) {
    const float negative = std::copysign(x, -1.0f), y = scalar::log1p_exp(negative);
    ASSERT_LE(ulp_error(y, scalar::log1p_exp(double{negative})), kMaxUlp) << negative;
    if (negative > -20) {
      ASSERT_TRUE(same(scalar::common_log1p_exp(negative), y)) << negative;
    }
  }
}

TEST(ScalarMath, SoftplusIsWithinTwoUlp) {
  const scalar::softplus_functor softplus{{}, {1, 20}};
  for (const float x : arguments()) {
    ASSERT_LE(ulp_error(softplus(x), softplus(double{x})), kMaxUlp) << x;
  }
}

TEST(ScalarMath, LoopsAndSingleCallsGiveTheSameBits) {
  std::vector<float> in = arguments();
  in.resize(100'003);  // leaves a tail behind every vector width
  for (const Unary& f : kUnary) {
    const std::vector<float> out = evaluate(f, in);
    int different = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      float one = 0;
      f.loop(&in[i], &one, 1);
      different += !same(one, out[i]);
    }
    EXPECT_EQ(different, 0) << f.name;
  }
}

struct SpecialValue {
  const char* name;
  float x, want;
};

class SpecialValues : public ::testing::TestWithParam<SpecialValue> {};

TEST_P(SpecialValues, AreExact) {
  const auto& [name, x, want] = GetParam();
  const float got = evaluate(find(name), {x})[0];
  EXPECT_TRUE(same(got, want)) << name << "(" << x << ") is " << got << ", not " << want;
}

INSTANTIATE_TEST_SUITE_P(
    All, SpecialValues,
    ::testing::Values(SpecialValue{"exp", -kInf, 0}, SpecialValue{"exp", kInf, kInf},
                      SpecialValue{"exp", -0.0f, 1}, SpecialValue{"exp", -104, 0},
                      SpecialValue{"exp", 88.73f, kInf}, SpecialValue{"exp", -103.9f, kTiny},
                      SpecialValue{"exp2", -149, kTiny}, SpecialValue{"exp2", 127, 0x1p127f},
                      SpecialValue{"exp2", 128, kInf}, SpecialValue{"expm1", -0.0f, -0.0f},
                      SpecialValue{"expm1", -kInf, -1}, SpecialValue{"expm1", kTiny, kTiny},
                      SpecialValue{"log", 0, -kInf}, SpecialValue{"log", -0.0f, -kInf},
                      SpecialValue{"log", -1, kNan}, SpecialValue{"log", kInf, kInf},
                      SpecialValue{"log", 1, 0}, SpecialValue{"log", -kInf, kNan},
                      SpecialValue{"log2", kTiny, -149}, SpecialValue{"log2", 0x1p100f, 100},
                      SpecialValue{"log10", 1000, 3}, SpecialValue{"log1p", -1, -kInf},
                      SpecialValue{"log1p", -0.0f, -0.0f}, SpecialValue{"log1p", -1.5f, kNan},
                      SpecialValue{"log1p", kMax, 88.722839f}, SpecialValue{"log1p", kInf, kInf},
                      SpecialValue{"sigmoid", 0, 0.5f}, SpecialValue{"sigmoid", -kInf, 0},
                      SpecialValue{"sigmoid", kInf, 1}, SpecialValue{"tanh", -0.0f, -0.0f},
                      SpecialValue{"tanh", -kInf, -1}, SpecialValue{"tanh", kInf, 1},
                      SpecialValue{"erf", -0.0f, -0.0f}, SpecialValue{"erf", -kInf, -1},
                      SpecialValue{"erfc", kInf, 0}, SpecialValue{"erfc", -kInf, 2},
                      SpecialValue{"erfc", -0.0f, 1}, SpecialValue{"erfc", 10.06f, 0},
                      SpecialValue{"erfc", 10.05f, kTiny}, SpecialValue{"erfc", kTiny, 1},
                      SpecialValue{"sin", -0.0f, -0.0f}, SpecialValue{"sin", kInf, kNan},
                      SpecialValue{"cos", 0, 1}, SpecialValue{"cos", -kInf, kNan},
                      SpecialValue{"tan", -0.0f, -0.0f}, SpecialValue{"tan", kInf, kNan},
                      SpecialValue{"tan", 0, 0}, SpecialValue{"tan", -kTiny, -kTiny},
                      SpecialValue{"exp2", -150, 0}, SpecialValue{"exp2", -kInf, 0},
                      SpecialValue{"exp2", kInf, kInf}, SpecialValue{"expm1", kInf, kInf},
                      SpecialValue{"erf", kTiny, kTiny}, SpecialValue{"erf", 4, 1},
                      SpecialValue{"erf", kInf, 1}, SpecialValue{"sinh", -0.0f, -0.0f},
                      SpecialValue{"sinh", 3 * kTiny, 3 * kTiny}, SpecialValue{"sinh", kMax, kInf},
                      SpecialValue{"sinh", 89.5f, kInf}, SpecialValue{"atan", -0.0f, -0.0f},
                      SpecialValue{"atan", kInf, 1.57079637f}, SpecialValue{"sinh", -kInf, -kInf},
                      SpecialValue{"cosh", -kInf, kInf}, SpecialValue{"sqrt", -0.0f, -0.0f},
                      SpecialValue{"sqrt", -1, kNan}, SpecialValue{"rsqrt", 0, kInf},
                      SpecialValue{"round", 2.5f, 2}, SpecialValue{"round", -0.5f, -0.0f},
                      SpecialValue{"round", 8388607.5f, 8388608}, SpecialValue{"floor", -0.5f, -1},
                      SpecialValue{"ceil", -0.5f, -0.0f}, SpecialValue{"trunc", -1.5f, -1}));

TEST(ScalarMath, NanPropagates) {
  for (const Unary& f : kUnary) {
    EXPECT_TRUE(std::isnan(evaluate(f, {kNan})[0])) << f.name;
    EXPECT_TRUE(std::isnan(evaluate(f, {std::copysign(kNan, -1.0f)})[0])) << f.name;
  }
}

// Relative to itself in the lower tail, too, down to where it is no normal number.
TEST(ScalarMath, NormalDistributionOfDoubles) {
  constexpr Extended kRootOfTwo = 1.41421356237309504880168872420969808L;
  for (double x : double_arguments(-37, 9, 5, 50'000)) {
    if (!(x > -37)) continue;
    const Extended exact = 0.5L * std::erfc(-Extended{x} / kRootOfTwo);
    const double tolerance = x < 0 ? 7e-16 : 2.5e-16;
    ASSERT_LE(std::abs(scalar::normal_cdf(x) - exact), exact * tolerance) << x;
  }
  EXPECT_EQ(scalar::gelu(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_TRUE(std::isnan(scalar::gelu(std::numeric_limits<double>::quiet_NaN())));
}

// Against long double.
TEST(ScalarMath, DoubleFunctionsAreWithinTwoUlp) {
  FACULA_NOTHING_FOR_TSAN();
  for (const DoubleUnary& f : kDoubleUnary) {
    double worst = 0, at = 0;
    for (const double x : double_arguments(f.low, f.high, 5, 50'000)) {
      const double error = ulp_error(f.function(x), f.exact(x));
      if (error > worst) {
        worst = error;
        at = x;
      }
    }
    EXPECT_LE(worst, kMaxUlp) << f.name << " at " << at << " = " << std::hexfloat << at;
  }
}

TEST(ScalarMath, DoubleFunctionsOfTwoAreWithinTwoUlp) {
  for (const DoubleBinary& f : kDoubleBinary) {
    double worst = 0, worst_a = 0, worst_b = 0;
    for (const auto& [a, b] : f.pairs(7, 100'000)) {
      const double error = ulp_error(f.function(a, b), f.exact(a, b));
      if (error > worst) {
        worst = error;
        worst_a = a;
        worst_b = b;
      }
    }
    EXPECT_LE(worst, kMaxUlp) << f.name << " of " << std::hexfloat << worst_a << ", " << worst_b;
  }
}

TEST(ScalarMath, CommonDoublesHaveTheBitsOfAll) {
  using scalar::detail::angle_rarity, scalar::detail::kRareAngle;
  for (const double x : double_arguments(-0x1p20, 0x1p20, 5, 50'000)) {
    const bool common = angle_rarity(x, kRareAngle) < kRareAngle;
    ASSERT_EQ(common, std::abs(x) < scalar::detail::kSmallDoubleAngle) << x;
    if (common) {
      ASSERT_EQ(std::bit_cast<int64_t>(scalar::common_sin(x)),
                std::bit_cast<int64_t>(scalar::sin(x)));
      ASSERT_EQ(std::bit_cast<int64_t>(scalar::common_cos(x)),
                std::bit_cast<int64_t>(scalar::cos(x)));
      ASSERT_EQ(std::bit_cast<int64_t>(scalar::common_tan(x)),
                std::bit_cast<int64_t>(scalar::tan(x)));
    }
    if (std::isnormal(x) && x > 0) {
      ASSERT_EQ(scalar::common_log(x), scalar::log(x)) << x;
    }
  }
}

// Loops compute blocks of common arguments with these alone.
TEST(ScalarMath, CommonMagnitudesHaveTheBitsOfAll) {
  FACULA_NOTHING_FOR_TSAN();
  for (const float x : arguments()) {
    const uint32_t rarity = scalar::detail::magnitude_rarity(x);
    if (rarity < scalar::detail::kRareAngle) {
      ASSERT_TRUE(same(scalar::common_sin(x), scalar::sin(x))) << x;
      ASSERT_TRUE(same(scalar::common_cos(x), scalar::cos(x))) << x;
    }
    if (std::abs(x) < scalar::detail::kSmallTanAngle) {
      ASSERT_TRUE(same(scalar::detail::near_tan(x), scalar::tan(x))) << x;
    }
  }
}

TEST(ScalarMath, CommonLogarithmsHaveTheBitsOfAll) {
  FACULA_NOTHING_FOR_TSAN();
  int common = 0;
  for (const float x : arguments()) {
    if (scalar::detail::log_rarity(x) >= scalar::detail::kRareLogarithm) continue;
    ASSERT_TRUE(same(scalar::common_log(x), scalar::log(x))) << x;
    ASSERT_TRUE(same(scalar::common_log2(x), scalar::log2(x))) << x;
    ASSERT_TRUE(same(scalar::common_log10(x), scalar::log10(x))) << x;
    ++common;
  }
  EXPECT_GT(common, 100'000);
}

TEST(ScalarMath, PowHasTheSpecialValuesOfC) {
  const float values[] = {0.0f,         -0.0f,        1,           -1,        2,        -2,
                          0.5f,         -0.5f,        3,           -3,        1.5f,     -2.5f,
                          kInf,         -kInf,        kNan,        kTiny,     -kTiny,   kMax,
                          -kMax,        16777215,     16777216,    -16777215, 1e30f,    -1e30f,
                          8388607.5f,   0x1p-126f,    -0x1p-127f,  0x1p31f,   -0x1p31f, 0x1p32f,
                          1 + 0x1p-23f, 1 - 0x1p-24f, 0x1p-24f - 1};
  for (const float a : values) {
    for (const float b : values) {
      const float got = scalar::pow(a, b), want = std::pow(a, b);
      EXPECT_LE(ulp_error(got, want), 1)
          << "pow(" << a << ", " << b << ") is " << got << ", not " << want;
    }
  }
}

TEST(ScalarMath, SlopesUpToOneHaveTheBitsOfAtan) {
  for (const float x : arguments()) {
    if (x <= 1 && !std::signbit(x)) {
      ASSERT_TRUE(same(scalar::atan_of_slope(x), scalar::atan(x))) << x;
    }
  }
}

TEST(ScalarMath, Atan2HasTheSpecialValuesOfC) {
  const float values[] = {0.0f, -0.0f, 1,      -1,   3,     -0.5f, kInf,    -kInf,
                          kNan, kTiny, -kTiny, kMax, -kMax, 1e30f, -1e-30f, 0x1p-127f};
  for (const float a : values) {
    for (const float b : values) {
      const float got = scalar::atan2(a, b);
      const double want = std::atan2(double{a}, double{b});
      EXPECT_LE(ulp_error(got, want), 1)
          << "atan2(" << a << ", " << b << ") is " << got << ", not " << want;
    }
  }
}

TEST(ScalarMath, Atan2IsWithinTwoUlp) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> distance(-120, 120), place(-4, 4);
  for (int i = 0; i < 1'000'000; ++i) {
    const float a = static_cast<float>(std::exp2(distance(random)) * (i % 2 == 0 ? 1 : -1));
    const float b = static_cast<float>(a * place(random));
    ASSERT_LE(ulp_error(scalar::atan2(a, b), std::atan2(double{a}, double{b})), kMaxUlp)
        << a << ", " << b;
  }
}

TEST(ScalarMath, PowIsWithinTwoUlp) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> base(-30, 30), power(-150, 128);
  for (int i = 0; i < 1'000'000; ++i) {
    const float a = static_cast<float>(std::exp2(base(random) * (i % 2 == 0 ? 1 : 1e-5)));
    const float b = static_cast<float>(power(random) / std::log2(double{a}));
    ASSERT_LE(ulp_error(scalar::pow(a, b), std::pow(double{a}, double{b})), kMaxUlp)
        << a << " to the power " << b;
  }
}

TEST(ScalarMath, PowOfSubnormalsAndAtTheEndsOfTheRangeIsWithinTwoUlp) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> base(-149, 128), end(126, 129), bottom(-151, -125);
  for (int i = 0; i < 300'000; ++i) {
    const double exponent = i % 3 == 0 ? base(random) : base(random) * 1e-6;
    const float a = static_cast<float>(std::exp2(exponent));
    if (a == 1) continue;
    const double t = i % 2 == 0 ? end(random) : bottom(random);
    const float b = static_cast<float>(t / std::log2(double{a}));
    ASSERT_LE(ulp_error(scalar::pow(a, b), std::pow(double{a}, double{b})), kMaxUlp)
        << a << " to the power " << b;
  }
}

// Loops compute blocks of common pairs with this alone.
TEST(ScalarMath, CommonPairsHaveTheBitsOfAllInPow) {
  const std::vector<float> values = arguments();
  std::mt19937 random(4);
  int common = 0;
  for (const float a : values) {
    const float b = values[random() % values.size()];
    if (scalar::detail::log_rarity(a) >= scalar::detail::kRareLogarithm) continue;
    const auto log2a = scalar::detail::log2_pair(scalar::detail::log2_parts(a));
    const auto half = scalar::detail::split_product(b, log2a);
    if (scalar::detail::product_rarity(half) >= scalar::detail::kRareProduct) continue;
    ASSERT_TRUE(same(scalar::common_pow(a, b), scalar::pow(a, b))) << a << " to the power " << b;
    ++common;
  }
  EXPECT_GT(common, 100'000);
}

TEST(ScalarMath, BlocksOfPowHoldRareAndCommonPairs) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> base(0.1f, 10), power(-3, 3);
  std::vector<float> a(5000), b(5000);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = base(random) * (i % 701 == 0 ? -1 : 1);
    b[i] = i % 701 == 0 ? 3 : power(random);
  }
  const Tensor x = tensor(a), y = tensor(b);
  const Tensor both = pow(x, y), fifths = pow(x, 5.0), powers = pow(2.0, y);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(same(both.data_ptr<float>()[i], scalar::pow(a[i], b[i]))) << a[i] << ", " << b[i];
    ASSERT_TRUE(same(fifths.data_ptr<float>()[i], scalar::pow(a[i], 5.0f))) << a[i];
    ASSERT_TRUE(same(powers.data_ptr<float>()[i], scalar::pow(2.0f, b[i]))) << b[i];
  }
}

TEST(ScalarMath, FmaRoundsOnce) {
  std::mt19937 random(2);
  const auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
  for (int i = 0; i < 300'000; ++i) {
    const float a = any(), b = any(), product = a * b;
    // Addends of any size, nearly cancelling, and half an ulp away from a tie.
    for (const float c : {any(), -product, std::ldexp(product, 24), std::ldexp(product, -25)}) {
      ASSERT_TRUE(same(scalar::fma(a, b, c), std::fma(a, b, c))) << a << " * " << b << " + " << c;
    }
  }
}

TEST(ScalarMath, MinAndMaxPropagateNan) {
  for (const float x : {1.0f, -kInf, kInf}) {
    EXPECT_TRUE(std::isnan(scalar::min(kNan, x)) && std::isnan(scalar::min(x, kNan)));
    EXPECT_TRUE(std::isnan(scalar::max(kNan, x)) && std::isnan(scalar::max(x, kNan)));
  }
  EXPECT_EQ(scalar::min(1.0f, 2.0f), 1.0f);
  EXPECT_EQ(scalar::max(1.0, 2.0), 2.0);
  EXPECT_EQ(scalar::min<int64_t>(-1, 2), -1);
}

TEST(ScalarMath, RemainderAndFloorDivideFollowPyTorch) {
  using scalar::floor_divide;
  using scalar::remainder;
  EXPECT_EQ(remainder(5.0f, -3.0f), -1.0f);
  EXPECT_EQ(remainder(-5.0, 3.0), 1.0);
  EXPECT_EQ(remainder(5.0f, kInf), 5.0f);
  EXPECT_EQ(remainder(-5.0f, kInf), kInf);
  EXPECT_TRUE(std::isnan(remainder(1.0f, 0.0f)));
  EXPECT_EQ(remainder(1e30f, 7.0f), std::fmod(1e30f, 7.0f));
  EXPECT_EQ(floor_divide(5.0f, -3.0f), -2.0f);
  EXPECT_EQ(floor_divide(-1.0f, kInf), -1.0f);
  EXPECT_EQ(floor_divide(1.0f, 0.0f), kInf);
  EXPECT_EQ(floor_divide(1.0f, 0.1f), 9.0f);  // 0.1f is above 1/10
  EXPECT_TRUE(std::signbit(floor_divide(-0.0f, 3.0f)));
}

TEST(ScalarMath, IntegerDivisionNeverTraps) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(scalar::floor_divide<int64_t>(-7, 2), -4);
  EXPECT_EQ(scalar::remainder<int64_t>(-7, 2), 1);
  EXPECT_EQ(scalar::fmod<int64_t>(-7, 2), -1);
  EXPECT_EQ(scalar::floor_divide<int64_t>(7, 0), 0);
  EXPECT_EQ(scalar::remainder<int64_t>(7, 0), 0);
  EXPECT_EQ(scalar::floor_divide<int64_t>(kLowest, -1), kLowest);
  EXPECT_EQ(scalar::remainder<int64_t>(kLowest, -1), 0);
  EXPECT_EQ(scalar::floor_divide<uint8_t>(250, 255), 0);
  EXPECT_EQ(scalar::remainder<uint8_t>(250, 200), 50);
  EXPECT_EQ(scalar::floor_divide<int32_t>(7, -2), -4);
  EXPECT_EQ(scalar::remainder<int32_t>(7, -2), -1);
}

TEST(ScalarMath, IntegersHaveTheRestOfTheVocabulary) {
  EXPECT_EQ(scalar::pow<int64_t>(-3, 5), -243);
  EXPECT_EQ(scalar::pow<int64_t>(2, -1), 0);
  EXPECT_EQ(scalar::pow<int64_t>(-1, -3), -1);
  EXPECT_EQ(scalar::pow<uint8_t>(2, 8), 0);
  EXPECT_EQ(scalar::abs<int64_t>(-5), 5);
  EXPECT_EQ(scalar::sign<int32_t>(-5), -1);
  EXPECT_EQ(scalar::sign<uint8_t>(5), 1);
  EXPECT_EQ(scalar::round<int64_t>(5), 5);
  EXPECT_FALSE(scalar::isnan(5));
  EXPECT_TRUE(scalar::select(true, true, false));
}

TEST(ScalarMath, ConstantsOfIntegersSaturate) {
  EXPECT_EQ(scalar::K<uint8_t>(-1), 0);
  EXPECT_EQ(scalar::K<uint8_t>(300), 255);
  EXPECT_EQ(scalar::K<int64_t>(1e30), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(scalar::K<int32_t>(std::nan("")), 0);
  EXPECT_TRUE(scalar::K<bool>(0.5));
  EXPECT_EQ(scalar::K<float>(0.1), 0.1f);
}

TEST(ScalarMath, SignsAndClasses) {
  EXPECT_EQ(scalar::sign(kNan), 0.0f);
  EXPECT_EQ(scalar::sign(-kTiny), -1.0f);
  EXPECT_TRUE(same(scalar::copysign(1.0f, -0.0f), -1.0f));
  EXPECT_TRUE(scalar::isinf(-kInf));
  EXPECT_FALSE(scalar::isinf(kNan));
  EXPECT_TRUE(scalar::isnan(scalar::quiet_nan<float>()));
  EXPECT_EQ(scalar::as_float(scalar::as_int(1.5f)), 1.5f);
}

}  // namespace
}  // namespace facula
