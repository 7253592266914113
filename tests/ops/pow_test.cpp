// Powers whose exponent is a number, where other ops take pow's place and gradients are shorter.
#include <cmath>

#include <facula/autograd.h>
#include <facula/call.h>
#include <facula/generator.h>
#include <facula/ops.h>

#include "tests/support/expect.h"

namespace facula {
namespace {

struct Shortcut {
  double exponent;
  const char* op;
  const char* history;
};
constexpr Shortcut kShortcuts[] = {{2, "square", "SquareBackward0"},
                                   {3, "cube", "CubeBackward0"},
                                   {-1, "reciprocal", "ReciprocalBackward0"},
                                   {0.5, "sqrt", "SqrtBackward0"},
                                   {-0.5, "rsqrt", "RsqrtBackward0"}};

Tensor gradient_at(const Tensor& x, double exponent) {
  return autograd::grad({pow(x, exponent).sum()}, {x})[0];
}

TEST(Pow, HasShortcutsHoweverItIsCalled) {
  manual_seed(3);
  for (const auto& [exponent, op, history] : kShortcuts) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Tensor x = (rand({5, 7}) + 0.25).to(dtype), expected = call(op, {x})[0];
      expect_equal(pow(x, exponent), expected);
      expect_equal(x.pow(exponent), expected);
      expect_equal(x.clone().pow_(exponent), expected);
      expect_equal(pow(x.clone(), exponent), expected);
      expect_equal(call("pow", {x, exponent})[0], expected);
      const Tensor full = pow(x, full_like(x, exponent));
      expect_values(expected / full, std::vector<double>(35, 1));
    }
  }
}

TEST(Pow, RecordsItsShortcuts) {
  const Tensor x = leaf({0.5, 2, 3}, kFloat64);
  for (const auto& [exponent, op, history] : kShortcuts) {
    EXPECT_NE(pow(x, exponent).str().find(history), std::string::npos) << history;
    const Tensor slope = pow(x.detach(), full_like(x, exponent - 1)) * exponent;
    expect_values(gradient_at(x, exponent), slope.to_vector<double>());
    const Tensor written = x * 1;
    written.pow_(exponent);
    expect_equal(autograd::grad({written.sum()}, {x})[0], gradient_at(x, exponent));
  }
}

TEST(Pow, KeepsDtypesAndErrors) {
  const Tensor x = tensor({2, -3}), bytes = tensor({3, 20}, {-1}, kUInt8);
  expect_equal(pow(x, 2), tensor({4, 9}));
  expect_equal(pow(x, 3), tensor({8, -27}));
  expect_equal(pow(x, 2.0), tensor({4, 9}, {-1}, kFloat32));
  expect_equal(pow(x, -1.0) * 6, tensor({3, -2}, {-1}, kFloat32));
  expect_equal(pow(bytes, 2), tensor({9, 144}, {-1}, kUInt8));
  expect_equal(pow(tensor({true, false}), 2), tensor({1, 0}));
  EXPECT_ERROR(ValueError, "pow: an input is an undefined tensor", pow(Tensor(), 2));
  EXPECT_ERROR(ValueError, "pow_: the tensor is undefined; give it a value", Tensor().pow_(2));
  EXPECT_ERROR(DTypeError, "pow: inputs of dtype float16", pow(ones({2}).to(kFloat16), 2));
  EXPECT_ERROR(AutogradError, "pow_", leaf({1, 2}).pow_(2));
  EXPECT_ERROR(DTypeError, "pow_", x.clone().pow_(2.0));
}

TEST(Pow, HasGradientsForNumbers) {
  const Tensor x = leaf({0, 2, 3}, kFloat64);
  expect_values(gradient_at(x, 4), {0, 32, 108});
  expect_values(gradient_at(x, 1.5), {0, 1.5 * std::sqrt(2), 1.5 * std::sqrt(3)});
  expect_values(gradient_at(x, 1), {1, 1, 1});
  expect_values(gradient_at(x, 0), {0, 0, 0});
  for (const double exponent : {-2.0, 0.0, 1.0, 1.5, 2.0, 3.0, 3.5}) {
    const auto power = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      return {pow(in[0], exponent)};
    };
    EXPECT_EQ(autograd::gradcheck(power, {leaf({0.5, 2}, kFloat64)}, {.second_order = true}), "")
        << exponent;
  }
}

}  // namespace
}  // namespace facula
