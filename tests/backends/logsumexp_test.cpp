// Sums of powers by slices, of which the greatest element is known only in the end.
#include <facula/autograd.h>
#include <facula/generator.h>
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Greater and greater elements, or less and less: the sum so far is scaled at every one, or never.
TEST(LogSumExp, OfManySlicesAgreesWithDouble) {
  manual_seed(3);
  for (const Dims& sizes : {Dims{5, 70000}, Dims{3000, 530}, Dims{3, 2100, 19}, Dims{40, 100, 3}}) {
    const std::int64_t dim = sizes.size() == 2 ? sizes[0] < 10 : 1;
    const std::int64_t n = sizes[static_cast<std::size_t>(dim)];
    const Tensor steps = arange(n, kFloat32) * (300.0 / static_cast<double>(n));
    const Tensor ramp = dim == 1 && sizes.size() == 2 ? steps : steps.view({n, 1});
    for (const double slope : {0.0, 1.0, -1.0}) {
      const Tensor x = randn(sizes) + ramp * slope;
      const Tensor exact = logsumexp(x.to(kFloat64), {dim});
      EXPECT_LT((logsumexp(x, {dim}).to(kFloat64) - exact).abs().amax().item(), 3e-5) << slope;
    }
  }
}

// Greater elements than the first ones, by so little that they are added about those, or by more.
TEST(LogSumExp, OfGreaterElementsThanTheFirst) {
  for (const double step : {3.9, 4.1, 50.0, 1e5}) {
    for (const std::int64_t place : {8, 64, 70, 1024, 2999}) {
      const Tensor x = ones({3000, 20}) * -step;
      x.narrow(0, place, 3000 - place).fill_(0);
      const double n = static_cast<double>(3000 - place), rest = static_cast<double>(place);
      const double exact = std::log(n + rest * std::exp(-step));
      for (const Tensor& y : {logsumexp(x, {0}), logsumexp(x.t().contiguous(), {1})}) {
        EXPECT_LT((y - exact).abs().amax().item(), 2e-6) << step << " at " << place;
      }
    }
  }
}

// Sums about elements that are far below a single great one lose what it should keep.
TEST(LogSumExp, OfASingleGreaterElement) {
  const Tensor x = full({4096, 20}, -16, kFloat32);
  x[4095].fill_(0);
  const double exact = std::log1p(4095 * std::exp(-16.0));
  for (const Tensor& y : {logsumexp(x, {0}), logsumexp(x.t().contiguous(), {1})}) {
    EXPECT_LT((y - exact).abs().amax().item(), 3e-7);
  }
}

TEST(LogSumExp, OfInfinitiesFollowsPyTorch) {
  const double nan = std::nan("");
  for (const std::int64_t n : {3, 40, 2500}) {
    for (const std::int64_t place : {std::int64_t{0}, n / 2, n - 2}) {
      const Tensor x = zeros({n, 20});
      x.select(1, 0).fill_(-kInf);
      x[place][1] = kInf;
      x[place][2] = -kInf;
      x[place][3] = nan;
      x[place][4] = kInf;
      x[place + 1][4] = nan;
      x[place + 1][5] = std::numeric_limits<float>::max();
      x[place][6] = kInf;
      x[place + 1][6] = kInf;
      const Tensor exact = logsumexp(x.to(kFloat64), {0});
      for (const Tensor& y : {logsumexp(x, {0}), logsumexp(x.t().contiguous(), {1})}) {
        EXPECT_EQ(y[0].item(), -kInf);
        EXPECT_EQ(y[1].item(), kInf);
        EXPECT_NEAR(y[2].item(), std::log(static_cast<double>(n - 1)), 1e-5);
        EXPECT_TRUE(std::isnan(y[3].item()) && std::isnan(y[4].item()));
        EXPECT_EQ(y[5].item(), static_cast<double>(std::numeric_limits<float>::max()));
        EXPECT_EQ(y[6].item(), kInf);
        EXPECT_NEAR(y[7].item(), exact[7].item(), 1e-5);
      }
    }
  }
}

TEST(LogSumExp, OfNothingIsTheLogarithmOfZero) {
  for (const std::uint32_t mode : {std::uint32_t{0}, std::uint32_t{runtime::kReference}}) {
    runtime::ModeGuard guard(mode);
    const Tensor x = zeros({0, 3}).requires_grad_();
    expect_close(logsumexp(x, {0}), full({3}, -kInf), 0, "of columns");
    expect_close(logsumexp(x, {}), full({}, -kInf), 0, "of all");
    EXPECT_EQ(logsumexp(x, {1}).numel(), 0);
    expect_close(logsumexp(zeros({2, 0}, kInt64), {1}, true), full({2, 1}, -kInf), 0,
                 "of integers");
    logsumexp(x, {0}).sum().backward();
    EXPECT_EQ(x.grad().sizes().vec(), x.sizes().vec());
  }
}

// Infinity less infinity is no number, and nothing hides that.
TEST(LogSumExp, GradientsAtInfinitiesFollowPyTorch) {
  const double nan = std::nan("");
  const std::vector<std::vector<double>> rows[] = {
      {{-kInf, 1}, {0, 1}},       {{-kInf, -kInf}, {nan, nan}}, {{kInf, 1}, {nan, 0}},
      {{kInf, kInf}, {nan, nan}}, {{kInf, -kInf}, {nan, 0}},    {{nan, 1}, {nan, nan}}};
  for (const auto& row : rows) {
    const Tensor x = tensor(row[0], {2}, kFloat32).requires_grad_();
    logsumexp(x, {0}).backward();
    expect_close(x.grad(), tensor(row[1], {2}, kFloat32), 0, "gradient");
  }
}

}  // namespace
}  // namespace facula
