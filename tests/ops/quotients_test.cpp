// fmod, remainder and floor_divide: loops divide pairs with common quotients by themselves, to the
// bits that the C library's exact fmod leads to.
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "ops/schema/scalar.h"

namespace facula {
namespace {

/// Unsigned integers as large as a float or double.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
struct Pairs {
  std::vector<T> a, b;
  void add(T x, T y) {
    a.push_back(x);
    b.push_back(y);
  }
  std::size_t size() const { return a.size(); }
};

template <class T>
T random_bits(std::mt19937_64& random, Bits<T> mask = ~Bits<T>{0}) {
  return std::bit_cast<T>(static_cast<Bits<T>>(static_cast<Bits<T>>(random()) & mask));
}
/// `x` moved by `steps` numbers away from zero, or towards it and beyond.
template <class T>
T neighbour(T x, int steps) {
  return std::bit_cast<T>(std::bit_cast<Bits<T>>(x) + static_cast<Bits<T>>(steps));
}

/// C++'s fmod, Python's % and // of one type, all from fmod.
template <class T>
T remainder_of(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
template <class T>
T floored_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  const T down = std::floor(quotient);
  return quotient - down > T(0.5) ? down + 1 : down;
}

template <class T>
void expect_same(const char* name, const Pairs<T>& pairs, const Tensor& result,
                 T (*expected)(T, T)) {
  const T* const values = result.data_ptr<T>();
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const T want = expected(pairs.a[i], pairs.b[i]);
    ASSERT_TRUE(std::bit_cast<Bits<T>>(values[i]) == std::bit_cast<Bits<T>>(want) ||
                (std::isnan(values[i]) && std::isnan(want)))
        << std::hexfloat << name << "(" << pairs.a[i] << ", " << pairs.b[i] << ") is " << values[i]
        << ", not " << want;
  }
}

template <class T>
void check(const Pairs<T>& pairs) {
  const Tensor a = tensor(pairs.a, {-1}, dtype_of<T>), b = tensor(pairs.b, {-1}, dtype_of<T>);
  expect_same<T>("fmod", pairs, fmod(a, b), [](T x, T y) { return std::fmod(x, y); });
  expect_same<T>("remainder", pairs, remainder(a, b), remainder_of);
  expect_same<T>("floor_divide", pairs, floor_divide(a, b), floored_quotient);
}

template <class T>
bool is_common(T a, T b) {
  return scalar::detail::quotient_rarity(a, b) < scalar::detail::kRareQuotient;
}

/// Those of the pairs that loops need not go the long way for, so that no block hides them.
template <class T>
Pairs<T> common_of(const Pairs<T>& pairs) {
  Pairs<T> common;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (is_common(pairs.a[i], pairs.b[i])) common.add(pairs.a[i], pairs.b[i]);
  }
  return common;
}

/// Both signs of random multiples of random divisors and what is next to them.
template <class T>
Pairs<T> near_multiples(std::mt19937_64& random, int count, Bits<T> divisor_mask) {
  Pairs<T> pairs;
  for (int i = 0; i < count; ++i) {
    const T b = random_bits<T>(random, divisor_mask);
    const auto factor = static_cast<long double>(random() % (1u << (random() % 22)));
    const auto a = static_cast<T>(factor * b) * (random() % 2 == 0 ? T(1) : T(-1));
    for (const int steps : {-1, 0, 1}) pairs.add(neighbour(a, steps), b);
  }
  return pairs;
}

template <class T>
class Quotients : public testing::Test {
 protected:
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 random{1};
};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Quotients, Floats);

TYPED_TEST(Quotients, OfAnyBits) {
  Pairs<TypeParam> pairs;
  for (int i = 0; i < 300'000; ++i) {
    pairs.add(random_bits<TypeParam>(this->random), random_bits<TypeParam>(this->random));
  }
  check(pairs);
  const auto common = common_of(pairs);
  EXPECT_GT(common.size(), 100'000u);
  check(common);
}

TYPED_TEST(Quotients, NextToIntegers) {
  const auto all = ~Bits<TypeParam>{0};
  const auto common = common_of(near_multiples<TypeParam>(this->random, 100'000, all));
  EXPECT_GT(common.size(), 100'000u);
  check(common);
}

// Those with many digits are the hardest.
TYPED_TEST(Quotients, OfOddDivisors) {
  Pairs<TypeParam> pairs;
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = std::bit_cast<Bits<TypeParam>>(TypeParam(2)) - 1 - this->random() % 1000;
    const auto b = std::bit_cast<TypeParam>(static_cast<Bits<TypeParam>>(bits));
    const auto a = b * static_cast<TypeParam>(this->random() % (1u << 21));
    for (const int steps : {-2, -1, 0, 1, 2}) pairs.add(neighbour(a, steps), b);
  }
  check(common_of(pairs));
}

TYPED_TEST(Quotients, OfSubnormalDivisors) {
  using Limits = typename TestFixture::Limits;
  const auto sign_and_digits = std::bit_cast<Bits<TypeParam>>(-2 * Limits::min()) - 1;
  const auto common = common_of(near_multiples<TypeParam>(this->random, 50'000, sign_and_digits));
  EXPECT_GT(common.size(), 100'000u);
  check(common);
}

TYPED_TEST(Quotients, AroundTheLargestCommonOnes) {
  Pairs<TypeParam> pairs;
  for (int i = 0; i < 20'000; ++i) {
    const auto b = random_bits<TypeParam>(this->random);
    for (const double factor : {0x1p21 - 1, 0x1p21, -0x1p21, 0x1p21 + 1, 0x1p23, -0x1p24}) {
      const auto a = static_cast<TypeParam>(factor * b);
      for (const int steps : {-1, 0, 1}) pairs.add(neighbour(a, steps), b);
    }
  }
  check(pairs);
  check(common_of(pairs));
}

TYPED_TEST(Quotients, OfSpecialValues) {
  using T = TypeParam;
  using Limits = typename TestFixture::Limits;
  const T inf = Limits::infinity(), nan = Limits::quiet_NaN(), tiny = Limits::denorm_min();
  const T values[] = {T(0.0),   1,           3,        T(0.1),
                      5.5,      tiny,        3 * tiny, Limits::min(),
                      inf,      nan,         0x1p21,   Limits::max(),
                      0x1p23,   T(0x1.8p24), 0x1p105,  Limits::max() / 0x1p21,
                      0x1p106,  T(1e-30),    T(1e-10), Limits::max() / 0x1p20,
                      T(1e30),  0x1p64,      7,        Limits::min() / 2,
                      T(1e-38), 2.5,         0x1p107};
  Pairs<T> pairs;
  for (const T a : values) {
    for (const T b : values) {
      for (const T x : {a, -a}) {
        for (const T y : {b, -b}) pairs.add(x, y);
      }
    }
  }
  check(pairs);
  check(common_of(pairs));
  EXPECT_TRUE(is_common<T>(-7, 2) && is_common<T>(0, 3) && is_common<T>(0x1p21, 1));
  EXPECT_FALSE(is_common(neighbour<T>(0x1p21, 1), T(1)) || is_common(T(1), inf) ||
               is_common(T(1), nan));
}

TYPED_TEST(Quotients, OfANumberAndManyOthers) {
  std::uniform_real_distribution<TypeParam> range(-100, 100);
  Pairs<TypeParam> by_three, of_three;
  for (int i = 0; i < 5000; ++i) {
    const auto x = i % 701 == 0 ? TestFixture::Limits::infinity() : range(this->random);
    by_three.add(x, 3);
    of_three.add(3, x);
  }
  expect_same<TypeParam>("remainder", by_three,
                         remainder(tensor(by_three.a, {-1}, dtype_of<TypeParam>), 3.0),
                         remainder_of);
  expect_same<TypeParam>("remainder", of_three,
                         remainder(3.0, tensor(of_three.b, {-1}, dtype_of<TypeParam>)),
                         remainder_of);
}

}  // namespace
}  // namespace facula
