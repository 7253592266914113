// Variances of long rows and columns whose mean is far larger than their spread.
#include <facula/generator.h>
#include <facula/ops.h>
#include <gtest/gtest.h>

namespace facula {
namespace {

void expect_precise(const Tensor& x, const Dims& dims) {
  SCOPED_TRACE(x.sizes().str() + " over " + IntList(dims).str());
  const Tensor wide = x.to(kFloat64);
  const Tensor center = mean(wide, dims, true);
  const Tensor expected = mean(square(wide - center), dims, true);
  const auto [variance, average] = var_mean(x, dims, 0, true);
  EXPECT_LT(max((variance.to(kFloat64) / expected - 1).abs()).item(), 1e-4);
  EXPECT_LT(max((average.to(kFloat64) / center - 1).abs()).item(), 2e-7);
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

TEST(VarMean, OfNothingIsNotANumber) {
  const auto [variance, average] = var_mean(empty({0, 3}), {0});
  EXPECT_TRUE(variance.isnan().all().item<bool>());
  EXPECT_TRUE(average.isnan().all().item<bool>());
}

}  // namespace
}  // namespace facula
