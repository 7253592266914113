// Variances of long rows and columns whose mean is far larger than their spread.
#include <facula/generator.h>
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace facula {
namespace {

void expect_precise(const Tensor& x, const Dims& dims, double mean_error = 2e-7) {
  SCOPED_TRACE(x.sizes().str() + " over " + IntList(dims).str());
  const Tensor wide = x.to(kFloat64);
  const Tensor center = mean(wide, dims, true);
  const Tensor expected = mean(square(wide - center), dims, true);
  const auto [variance, average] = var_mean(x, dims, 0, true);
  EXPECT_LT(max((variance.to(kFloat64) / expected - 1).abs()).item(), 1e-4);
  const Tensor unit = maximum(center.abs(), sqrt(expected));
  EXPECT_LT(max(((average.to(kFloat64) - center) / unit).abs()).item(), mean_error);
}

TEST(VarMean, IsPreciseAwayFromZero) {
  manual_seed(3);
  const Tensor x = 100 + randn({6, 200, 301}) * 0.1;
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{2}, Dims{0, 1}, Dims{1, 2}, Dims{1}, Dims{0, 2}}) {
    expect_precise(x, dims);
    expect_precise(x.transpose(0, 2), dims);
  }
  expect_precise(x.view({30, 20, 301, 2}).to(kChannelsLast), {});
}

// Deviations are taken from the mean of the first quarter, whatever is in that.
TEST(VarMean, IsPreciseWhereTheFirstElementsAreUnlikeTheRest) {
  manual_seed(4);
  const auto expect_precise_with = [](std::int64_t first, std::int64_t last, double value) {
    const Tensor x = 100 + randn({3, 8192}) * 0.1;
    slice(x, 1, first, last).fill_(value);
    expect_precise(x, {1}, 1e-5);
  };
  expect_precise_with(0, 2048, 0);
  expect_precise_with(0, 2048, -1e4);
  expect_precise_with(0, 1, 1e6);
  expect_precise_with(2047, 2048, -1e6);
  expect_precise_with(2048, 8192, 1e-3);
  expect_precise(arange(0, 8192).to(kFloat32).view({1, 8192}), {1}, 1e-6);
}

TEST(VarMean, OfEqualElementsIsZero) {
  for (const std::int64_t n : {1, 3, 512, 8192, 20000}) {
    const auto [variance, average] = var_mean(full({n}, 0.1), {0}, 0);
    EXPECT_NEAR(variance.item(), 0, 1e-15) << n;
    EXPECT_GE(variance.item(), 0) << n;
    EXPECT_NEAR(average.item(), 0.1f, 1e-8) << n;
  }
}

TEST(VarMean, OfInfinitiesIsInfiniteAndNotANumber) {
  for (const std::int64_t at : {0, 249, 250, 999}) {
    const Tensor x = ones({1000});
    select(x, 0, at).fill_(std::numeric_limits<double>::infinity());
    const auto [variance, average] = var_mean(x, {0});
    EXPECT_TRUE(std::isinf(average.item())) << at;
    EXPECT_TRUE(std::isnan(variance.item())) << at;
  }
}

TEST(VarMean, OfNothingIsNotANumber) {
  const auto [variance, average] = var_mean(empty({0, 3}), {0});
  EXPECT_TRUE(variance.isnan().all().item<bool>());
  EXPECT_TRUE(average.isnan().all().item<bool>());
}

}  // namespace
}  // namespace facula
