// Results too large for the caches are written past them, by another loop.
#include <facula/generator.h>
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/streaming.h"

namespace facula {
namespace {

/// Rows of n normally distributed elements, more than the caches hold.
Tensor many_rows(std::int64_t n, DType dtype) {
  manual_seed(7);
  const std::int64_t row_bytes = n * static_cast<std::int64_t>(size_of(dtype));
  return randn({cpu::most_cached_bytes() / row_bytes + 3, n}).to(dtype) * 5;
}

/// The same row by row: those results stay in the caches.
void expect_bits_of_few_rows(const Tensor& x, Tensor (*op)(const Tensor&, std::int64_t)) {
  const Tensor result = op(x, 1);
  constexpr std::int64_t kStep = 97;
  for (std::int64_t row = 0; row < x.sizes()[0]; row += kStep) {
    const std::int64_t rows = std::min<std::int64_t>(kStep, x.sizes()[0] - row);
    const Tensor expected = op(slice(x, 0, row, row + rows).contiguous(), 1);
    const Tensor part = slice(result, 0, row, row + rows);
    ASSERT_EQ(std::memcmp(part.raw_data(), expected.raw_data(), expected.nbytes()), 0)
        << "rows of " << x.sizes()[1] << " from " << row;
  }
}

TEST(Softmax, OfManyRowsHasTheBitsOfFew) {
  for (const std::int64_t n : {256, 300, 1000, 1001, 1024, 1025, 2500, 4096, 8000}) {
    const Tensor x = many_rows(n, kFloat32);
    expect_bits_of_few_rows(x, softmax);
    expect_bits_of_few_rows(x, log_softmax);
  }
  expect_bits_of_few_rows(many_rows(4096, kFloat64), softmax);
  expect_bits_of_few_rows(many_rows(1003, kFloat64), log_softmax);
}

TEST(Softmax, NotANumberFillsItsRowAlone) {
  const Tensor x = many_rows(4096, kFloat32);
  const std::int64_t last = x.sizes()[0] - 1;
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{33}, last}) {
    for (const std::int64_t column : {0, 70, 4095}) {
      select(select(x, 0, row), 0, column).fill_(std::nan(""));
      for (const Tensor& y : {softmax(x, 1), log_softmax(x, 1)}) {
        EXPECT_TRUE(select(y, 0, row).isnan().all().item<bool>()) << row << ", " << column;
        EXPECT_FALSE(select(y, 0, row == 0 ? 1 : row - 1).isnan().any().item<bool>());
      }
      select(select(x, 0, row), 0, column).fill_(1);
    }
  }
}

TEST(Softmax, OfLongRowsAgreesWithDouble) {
  manual_seed(3);
  for (const std::int64_t n : {1030, 3000, 66000, 200000}) {
    // Parts differ much in their largest elements; one has none.
    const Tensor rising = arange(n).to(kFloat32) * (20.0 / static_cast<double>(n));
    const Tensor x = randn({2, n}) * 3 + rising;
    slice(x, 1, 0, 1024).fill_(-std::numeric_limits<float>::infinity());
    const Tensor y = softmax(x, 1), z = log_softmax(x, 1);
    const Tensor exact = softmax(x.to(kFloat64), 1);
    // Differences of x from the largest element, up to 40, are rounded.
    EXPECT_LT(((y.to(kFloat64) - exact).abs() / (exact + 1e-30)).amax().item<double>(), 4e-6) << n;
    EXPECT_NEAR(y.to(kFloat64).sum().item<double>(), 2, 1e-5) << n;
    EXPECT_EQ(slice(y, 1, 0, 1024).amax().item<float>(), 0) << n;
    const Tensor logs = slice(z, 1, 1024, n),
                 exact_logs = log_softmax(slice(x, 1, 1024, n).to(kFloat64), 1);
    EXPECT_LT((logs.to(kFloat64) - exact_logs).abs().amax().item<double>(), 1e-5) << n;
    EXPECT_TRUE(slice(z, 1, 0, 1024).amax().item<float>() < -1e38f) << n;
  }
}

TEST(Softmax, VanishesWhereFloatsAreNoLongerNormal) {
  for (const std::int64_t n : {200, 2000}) {
    const Tensor x = arange(n).to(kFloat32) * (-120.0 / static_cast<double>(n));
    const std::vector<float> y = softmax(x, 0).to_vector<float>();
    const std::vector<double> expected = softmax(x.to(kFloat64), 0).to_vector<double>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      constexpr double kLeastNormal = std::numeric_limits<float>::min();
      EXPECT_NEAR(y[i], expected[i], 1e-6 * expected[i] + 2 * kLeastNormal) << n << ", " << i;
    }
    EXPECT_EQ(y.back(), 0);
  }
}

TEST(Softmax, OfInfinitiesFollowsPyTorch) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor x = zeros({3, 300});
  select(select(x, 0, 0), 0, 5).fill_(-kInf);
  select(select(x, 0, 1), 0, 299).fill_(kInf);
  select(x, 0, 2).fill_(-kInf);
  const Tensor y = softmax(x, 1);
  EXPECT_EQ(select(select(y, 0, 0), 0, 5).item<float>(), 0);
  EXPECT_FALSE(select(y, 0, 0).isnan().any().item<bool>());
  EXPECT_TRUE(select(y, 0, 2).isnan().all().item<bool>());
  EXPECT_TRUE(select(select(y, 0, 1), 0, 299).isnan().item<bool>());
}

}  // namespace
}  // namespace facula
