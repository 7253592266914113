// Loops compute blocks of common arguments in a shorter way. Among rare ones each element still
// gets the bits that it gets alone.
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#define FACULA_KERNEL_TU
#include "ops/defs/elu.h"
#include "ops/defs/elu_backward.h"
#include "ops/defs/gelu_tanh_backward.h"
#include "ops/defs/silu.h"
#include "ops/defs/silu_backward.h"
#include "ops/defs/softplus.h"
#include "ops/defs/softplus_backward.h"
#undef FACULA_KERNEL_TU

namespace facula {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Positive numbers below 4 with one of `rare` in some blocks of the longest that there are, at the
/// beginning, the end or between, and in the last elements, which fill no block.
std::vector<float> with_rare(const std::vector<float>& rare) {
  std::vector<float> values;
  constexpr int kBlock = 512;
  for (std::size_t block = 0; block < 2 * rare.size(); ++block) {
    for (int i = 0; i < kBlock; ++i) values.push_back(0.000015f * static_cast<float>(1 + i * i));
    if (block % 2 == 0) values[kBlock * block + (block * 51) % kBlock] = rare[block / 2];
  }
  values.insert(values.end(), {1.5f, rare[0], 2.5f});
  return values;
}

template <class T>
void expect_bits(const Tensor& result, const std::vector<T>& expected) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const std::vector<T> values = result.to_vector<T>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(std::bit_cast<Bits>(values[i]) == std::bit_cast<Bits>(expected[i]) ||
                (std::isnan(values[i]) && std::isnan(expected[i])))
        << "element " << i << " is " << values[i] << ", not " << expected[i];
  }
}

template <class Function>
void check_unary(Tensor (*op)(const Tensor&), Function function, const std::vector<float>& rare) {
  const std::vector<float> x = with_rare(rare);
  std::vector<float> expected;
  for (const float value : x) expected.push_back(function(value));
  expect_bits(op(tensor(x)), expected);
}

TEST(RareArguments, OfLogarithms) {
  const std::vector<float> rare = {0.0f, -0.0f, -2.0f, 0x1p-130f, 0x1p-149f, kInf, -kInf, kNan};
  check_unary(
      log, [](float x) { return scalar::log(x); }, rare);
  check_unary(
      log2, [](float x) { return scalar::log2(x); }, rare);
  check_unary(
      log10, [](float x) { return scalar::log10(x); }, rare);
}

TEST(RareArguments, OfAngles) {
  const std::vector<float> rare = {1e5f, -3e20f, 4000.0f, 0x1p15f,  -0x1p11f, kInf,   -kInf,
                                   kNan, -0.0f,  0.0f,    -1000.5f, -2.5f,    -1e-40f};
  check_unary(
      sin, [](float x) { return scalar::sin(x); }, rare);
  check_unary(
      cos, [](float x) { return scalar::cos(x); }, rare);
  check_unary(
      tan, [](float x) { return scalar::tan(x); }, rare);
}

TEST(RareArguments, OfAnglesInDouble) {
  std::vector<double> x, sines, cosines;
  for (const float value : with_rare({2e6f, -3e20f, 0x1p20f, kInf, kNan, -0.0f, -0x1.fffffep19f})) {
    x.push_back(1.1 * value);
    sines.push_back(scalar::sin(x.back()));
    cosines.push_back(scalar::cos(x.back()));
  }
  expect_bits(sin(tensor(x, {-1}, kFloat64)), sines);
  expect_bits(cos(tensor(x, {-1}, kFloat64)), cosines);
}

TEST(RareArguments, OfPowersInDouble) {
  std::vector<double> bases, exponents, powers;
  const std::vector<float> other = with_rare({kInf, 3.0f, -kInf, 0x1p10f, kNan, -3.0f, -0x1.8p20f});
  for (const float base : with_rare({0.0f, -2.0f, 0x1p-130f, kInf, kNan, -0.0f, -1.0f})) {
    exponents.push_back(1.1 * other[(bases.size() * 7) % other.size()]);
    bases.push_back(base);
    powers.push_back(scalar::pow(bases.back(), exponents.back()));
  }
  expect_bits(pow(tensor(bases, {-1}, kFloat64), tensor(exponents, {-1}, kFloat64)), powers);
}

TEST(RareArguments, OfErfc) {
  check_unary(erfc, [](float x) { return scalar::erfc(x); },
              {4.0f, -4.0f, 6.0f, -9.0f, 1e5f, -3e20f, kInf, -kInf, kNan});
}

// Vectors look up what single floats do: around the ends of the intervals and between, both signs.
TEST(RareArguments, OfErfcAreAllOthersLookedUp) {
  std::vector<float> x = {0.0f, -0.0f, 0x1p-149f, -0x1p-126f, 1e-10f, -1e-10f};
  for (int i = 1; i < 50'000; ++i) {
    const float value = 0.00008f * static_cast<float>(i);
    x.insert(x.end(), {value, -value});
  }
  for (int end = 1; end < 32; ++end) {
    const double root = std::sqrt(1.09375 * 1.09375 + 4 * 0.6953125 * 0.5 * end);
    float value = static_cast<float>((root - 1.09375) / (2 * 0.6953125)) - 0x1p-18f;
    for (int i = 0; i < 100 && value < 4; ++i, value = std::nextafter(value, 5.0f)) {
      x.insert(x.end(), {value, -value});
    }
  }
  std::vector<float> expected;
  for (const float value : x) expected.push_back(scalar::erfc(value));
  expect_bits(erfc(tensor(x)), expected);
}

// Polynomials are looked up for all arguments, or all but those beyond 2^125 and at most -1.
TEST(RareArguments, OfOthersThatAreLookedUp) {
  std::vector<float> x = {0.0f, -0.0f, 0x1p-149f, -0x1p-126f, kInf, -kInf, kNan};
  for (std::uint32_t bits = 0x30000000; bits < 0x7f800000; bits += 10'007) {
    const float value = std::bit_cast<float>(bits);
    x.insert(x.end(), {value, -value});
  }
  const auto check = [&](Tensor (*op)(const Tensor&), float (*function)(float)) {
    std::vector<float> expected;
    for (const float value : x) expected.push_back(function(value));
    expect_bits(op(tensor(x)), expected);
  };
  check(tanh, [](float value) { return scalar::tanh(value); });
  check(erf, [](float value) { return scalar::erf(value); });
  check(gelu_erf, [](float value) { return scalar::gelu(value); });
  check(log1p, [](float value) { return scalar::log1p(value); });
  check_unary(log1p, [](float value) { return scalar::log1p(value); },
              {-1.0f, -2.0f, 0x1p125f, 0x1.fffffep124f, 0x1p127f, kInf, -kInf, kNan});
}

TEST(RareArguments, OfActivationsAndTheirGradients) {
  std::vector<float> x = with_rare(
      {86.0f, -86.0f, -87.5f, -104.0f, 9.875f, -9.875f, -0.0f, 1e5f, -3e20f, kInf, -kInf, kNan});
  for (std::size_t i = 0, count = x.size(); i < count; ++i) x.push_back(-x[i]);
  std::vector<float> slopes;
  for (std::size_t i = 0; i < x.size(); ++i) slopes.push_back(0.25f * static_cast<float>(i % 7));
  const Tensor inputs = tensor(x), gradients = tensor(slopes);
  const auto check = [&](const Tensor& result, const auto& functor) {
    std::vector<float> expected;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if constexpr (requires { functor(1.0f, 1.0f); }) {
        expected.push_back(functor(slopes[i], x[i]));
      } else {
        expected.push_back(functor(x[i]));
      }
    }
    expect_bits(result, expected);
  };
  check(silu(inputs), scalar::silu_functor{});
  check(silu_backward(gradients, inputs), scalar::silu_backward_functor{});
  check(gelu_tanh_backward(gradients, inputs), scalar::gelu_tanh_backward_functor{});
  for (const auto& [alpha, scale, input_scale] :
       std::vector<std::array<double, 3>>{{1, 1, 1}, {0.75, 1, 1}, {1.5, 1.1, 0.7}, {1, 1, -1}}) {
    check(elu(inputs, alpha, scale, input_scale),
          scalar::elu_functor{{}, {alpha, scale, input_scale}});
    check(elu_backward(gradients, inputs, alpha, scale, input_scale),
          scalar::elu_backward_functor{{}, {alpha, scale, input_scale}});
  }
  for (const double beta : {1.0, 2.5, -1.0}) {
    check(softplus_backward(gradients, inputs, beta, 20),
          scalar::softplus_backward_functor{{}, {beta, 20}});
  }
}

TEST(RareArguments, OfSigmoid) {
  const auto single = [](float x) { return scalar::sigmoid(x); };
  check_unary(sigmoid, single,
              {86.0f, -86.0f, -87.5f, -103.0f, -105.0f, 1e5f, -3e20f, kInf, -kInf, kNan});
  std::vector<float> x, expected;
  for (int i = -100'000; i <= 100'000; ++i) x.push_back(0.00086f * static_cast<float>(i));
  for (const float value : x) expected.push_back(single(value));
  expect_bits(sigmoid(tensor(x)), expected);
}

// Vectors multiply where single floats divide. At the ends of every second power of two the root
// has all bits of the mantissa set, which takes a correction.
TEST(RareArguments, OfRsqrt) {
  std::vector<float> x = {0.0f, -0.0f, -1.0f, 0x1p-149f, -0x1p-149f, kInf, -kInf, kNan};
  x.push_back(std::bit_cast<float>(0x7fffffff));
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (std::uint32_t k = 1; k <= 16; ++k) {
      x.push_back(std::bit_cast<float>(((exponent + 1) << 23) - k));
    }
  }
  for (std::uint32_t bits = 0x3f800000; bits < 0x40800000; bits += 17) {
    x.push_back(std::bit_cast<float>(bits));
  }
  std::vector<float> expected;
  for (const float value : x) expected.push_back(1 / std::sqrt(value));
  expect_bits(rsqrt(tensor(x)), expected);
}

TEST(RareArguments, OfSoftplus) {
  const std::vector<float> x = with_rare({20.0f, -20.0f, 30.0f, -90.0f, -3e20f, kInf, -kInf, kNan});
  constexpr std::pair<double, double> kAttributes[] = {{1, 20}, {1, 25}, {1, 3}, {2.5, 20}};
  for (const auto& [beta, threshold] : kAttributes) {
    const scalar::softplus_functor functor{{}, {beta, threshold}};
    std::vector<float> expected;
    for (const float value : x) expected.push_back(functor(value));
    expect_bits(softplus(tensor(x), beta, threshold), expected);
  }
}

TEST(RareArguments, OfPow) {
  const std::vector<float> bases = with_rare({0.0f, -2.0f, 0x1p-130f, kInf, kNan, -0.0f, -1.0f});
  const std::vector<float> exponents =
      with_rare({kInf, 3.0f, -kInf, 0x1p127f, kNan, -3.0f, -0x1.8p127f});
  std::vector<float> expected, turned;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    expected.push_back(scalar::pow(bases[i], exponents[i]));
    turned.push_back(scalar::pow(1.25f, exponents[i]));
  }
  expect_bits(pow(tensor(bases), tensor(exponents)), expected);
  expect_bits(pow(tensor(std::vector<float>{1.25f}), tensor(exponents)), turned);
}

}  // namespace
}  // namespace facula
