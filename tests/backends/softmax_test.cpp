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
  for (const std::int64_t n : {256, 300, 1000, 1001, 4096, 8000}) {
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
