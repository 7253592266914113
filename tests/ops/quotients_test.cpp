// fmod, remainder and floor_divide of floats: loops divide pairs with common quotients by
// themselves, to the bits that the C library's exact fmodf leads to.
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ops/schema/scalar.h"

namespace facula {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

struct Pairs {
  std::vector<float> a, b;
  void add(float x, float y) {
    a.push_back(x);
    b.push_back(y);
  }
  std::size_t size() const { return a.size(); }
};

float with_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
/// `x` moved by `steps` floats away from zero, or towards it and beyond.
float neighbour(float x, int steps) {
  return with_bits(std::bit_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(steps));
}

/// C++'s fmodf, Python's % and // of floats, all from fmodf.
float remainder_of(float a, float b) {
  const float rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
float floored_quotient(float a, float b) {
  if (b == 0) return a / b;
  const float rest = std::fmod(a, b);
  float quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0f, a / b);
  const float down = std::floor(quotient);
  return quotient - down > 0.5f ? down + 1 : down;
}

void expect_same(const char* name, const Pairs& pairs, const Tensor& result,
                 float (*expected)(float, float)) {
  const float* const values = result.data_ptr<float>();
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const float want = expected(pairs.a[i], pairs.b[i]);
    ASSERT_TRUE(std::bit_cast<std::uint32_t>(values[i]) == std::bit_cast<std::uint32_t>(want) ||
                (std::isnan(values[i]) && std::isnan(want)))
        << std::hexfloat << name << "(" << pairs.a[i] << ", " << pairs.b[i] << ") is " << values[i]
        << ", not " << want;
  }
}

void check(const Pairs& pairs) {
  const Tensor a = tensor(pairs.a), b = tensor(pairs.b);
  expect_same("fmod", pairs, fmod(a, b), [](float x, float y) { return std::fmod(x, y); });
  expect_same("remainder", pairs, remainder(a, b), remainder_of);
  expect_same("floor_divide", pairs, floor_divide(a, b), floored_quotient);
}

bool is_common(float a, float b) {
  return scalar::detail::quotient_rarity(a, b) < scalar::detail::kRareQuotient;
}

/// Those of the pairs that loops need not go the long way for, so that no block hides them.
Pairs common_of(const Pairs& pairs) {
  Pairs common;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (is_common(pairs.a[i], pairs.b[i])) common.add(pairs.a[i], pairs.b[i]);
  }
  return common;
}

/// Both signs of random multiples of random divisors and what is next to them.
Pairs near_multiples(std::mt19937& random, int count, std::uint32_t divisor_mask) {
  Pairs pairs;
  for (int i = 0; i < count; ++i) {
    const float b = with_bits(static_cast<std::uint32_t>(random()) & divisor_mask);
    const auto factor = static_cast<double>(random() % (1u << (random() % 22)));
    const auto a = static_cast<float>(factor * b) * (random() % 2 == 0 ? 1.0f : -1.0f);
    for (const int steps : {-1, 0, 1}) pairs.add(neighbour(a, steps), b);
  }
  return pairs;
}

TEST(Quotients, OfAnyBits) {
  std::mt19937 random(1);
  Pairs pairs;
  for (int i = 0; i < 300'000; ++i) {
    pairs.add(with_bits(static_cast<std::uint32_t>(random())),
              with_bits(static_cast<std::uint32_t>(random())));
  }
  check(pairs);
  const Pairs common = common_of(pairs);
  EXPECT_GT(common.size(), 100'000u);
  check(common);
}

TEST(Quotients, NextToIntegers) {
  std::mt19937 random(2);
  const Pairs common = common_of(near_multiples(random, 100'000, 0xffffffffu));
  EXPECT_GT(common.size(), 100'000u);
  check(common);
}

TEST(Quotients, OfSubnormalDivisors) {
  std::mt19937 random(3);
  const Pairs common = common_of(near_multiples(random, 50'000, 0x80ffffffu));
  EXPECT_GT(common.size(), 100'000u);
  check(common);
}

TEST(Quotients, AroundTheLargestCommonOnes) {
  std::mt19937 random(4);
  Pairs pairs;
  for (int i = 0; i < 20'000; ++i) {
    const float b = with_bits(static_cast<std::uint32_t>(random()));
    for (const double factor : {0x1p21 - 1, 0x1p21, -0x1p21, 0x1p21 + 1, 0x1p23, -0x1p24}) {
      const auto a = static_cast<float>(factor * b);
      for (const int steps : {-1, 0, 1}) pairs.add(neighbour(a, steps), b);
    }
  }
  check(pairs);
  check(common_of(pairs));
}

TEST(Quotients, OfSpecialValues) {
  const float values[] = {0.0f,      1,         3,         0.1f,     5.5f,   kTiny,
                          3 * kTiny, 0x1p-126f, kMax,      kInf,     kNan,   0x1p21f,
                          0x1p23f,   0x1.8p24f, 0x1p105f,  0x1p106f, 1e-30f, 1e-10f,
                          0x1p64f,   1e30f,     0x1p-127f, 7,        2.5f,   0x1p107f};
  Pairs pairs;
  for (const float a : values) {
    for (const float b : values) {
      for (const float x : {a, -a}) {
        for (const float y : {b, -b}) pairs.add(x, y);
      }
    }
  }
  check(pairs);
  check(common_of(pairs));
  EXPECT_TRUE(is_common(-7, 2) && is_common(0, 3) && is_common(0x1p21f, 1));
  EXPECT_FALSE(is_common(0x1.000002p21f, 1) || is_common(1, kInf) || is_common(1, kNan));
}

TEST(Quotients, OfANumberAndManyOthers) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> range(-100, 100);
  Pairs by_three, of_three;
  for (int i = 0; i < 5000; ++i) {
    const float x = i % 701 == 0 ? kInf : range(random);
    by_three.add(x, 3);
    of_three.add(3, x);
  }
  expect_same("remainder", by_three, remainder(tensor(by_three.a), 3.0), remainder_of);
  expect_same("remainder", of_three, remainder(3.0, tensor(of_three.b)), remainder_of);
}

}  // namespace
}  // namespace facula
