// Gradients at 0, where the formulas of some ops are infinite, or at NaN: they are 0, as PyTorch's.
#include <facula/ops.h>

#include <gtest/gtest.h>

#include <cmath>

#include <facula/autograd.h>

namespace facula {
namespace {

template <class Function>
std::vector<double> gradient_of(const Function& function, const std::vector<double>& values,
                                IntList sizes = {-1}) {
  const Tensor x = tensor(values, sizes, kFloat64).requires_grad_();
  return autograd::grad({function(x).sum()}, {x})[0].template to_vector<double>();
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], 1e-12) << "at " << i;
  }
}

TEST(ZeroGradient, OfTheDeviationOfEqualElements) {
  expect_near(gradient_of([](const Tensor& x) { return std(x); }, {3, 3, 3}), {0, 0, 0});
  expect_near(gradient_of([](const Tensor& x) { return std(x, {1}); }, {1, 1, 1, 1, 2, 3}, {2, 3}),
              {0, 0, 0, -0.5, 0, 0.5});
}

TEST(ZeroGradient, OfNorms) {
  const double norm_of_three = std::cbrt(17);
  const double one = 1 / (norm_of_three * norm_of_three);
  expect_near(gradient_of([](const Tensor& x) { return norm(x, 3); }, {0, 0}), {0, 0});
  expect_near(
      gradient_of([](const Tensor& x) { return norm(x, 3, {1}); }, {0, 0, 0, 1, -2, 2}, {2, 3}),
      {0, 0, 0, one, -4 * one, 4 * one});
  for (const double p : {-1.0, 0.0, 0.5, 1.5, 2.0, 4.0}) {
    SCOPED_TRACE(p);
    expect_near(gradient_of([p](const Tensor& x) { return norm(x, p); }, {0, 0}), {0, 0});
  }
  expect_near(gradient_of([](const Tensor& x) { return norm(x, 0); }, {0, 4, NAN}), {0, 0, 0});
  // Below 1, a single 0 is enough.
  expect_near(gradient_of([](const Tensor& x) { return norm(x, 0.5); }, {0, 4, 1}), {0, 1.5, 3});
  expect_near(gradient_of([](const Tensor& x) { return norm(x, -1); }, {0, 1}), {0, 0});
}

// Of a factor and of the gradient's square, where one element or all are 0.
TEST(ZeroGradient, OfHigherOrderIsNoNaN) {
  for (const double p : {-1.0, 0.5, 1.5, 2.0, 3.0}) {
    for (const std::vector<double>& values : {std::vector<double>{0, 0}, {0, 2}}) {
      SCOPED_TRACE(p);
      const Tensor x = tensor(values, {2}, kFloat64).requires_grad_();
      const Tensor w = ones({}, kFloat64).requires_grad_();
      const Tensor first =
          autograd::grad({w * norm(x, p)}, {x}, {.retain_graph = true, .create_graph = true})[0];
      const auto second = autograd::grad({(first * first).sum()}, {x, w}, {.allow_unused = true});
      for (const Tensor& gradient : second) {
        if (gradient.defined()) {
          EXPECT_TRUE(all(isfinite(gradient)).item<bool>()) << gradient;
        }
      }
    }
  }
}

TEST(ZeroGradient, ChangesNoValue) {
  const std::vector<double> values = {0, 0, 1, 4};
  const Tensor plain = tensor(values, {2, 2}, kFloat64), leaf = plain.detach().requires_grad_();
  for (const double p : {-1.0, 0.5, 3.0}) {
    EXPECT_EQ(norm(leaf, p, {1}).to_vector<double>(), norm(plain, p, {1}).to_vector<double>()) << p;
  }
  EXPECT_EQ(std(leaf, {1}).to_vector<double>(), std(plain, {1}).to_vector<double>());
}

TEST(ZeroGradient, OfClampAtNaN) {
  const auto clamped = [](const Tensor& x) { return clamp(x, tensor(-1), tensor(2)); };
  expect_near(gradient_of(clamped, {NAN, 1}), {0, 1});
}

}  // namespace
}  // namespace facula
