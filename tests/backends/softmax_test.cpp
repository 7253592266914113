// Results too large for the caches are written past them, and columns are computed beside each
// other: by other loops, with the bits of rows that stay in the caches.
#include <facula/generator.h>
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/streaming.h"
#include "tests/backends/kernel_check.h"
#include "tests/support/expect.h"

namespace facula {
namespace {

/// Rows of n normally distributed elements, more than the caches hold.
Tensor many_rows(std::int64_t n, DType dtype) {
  manual_seed(7);
  const std::int64_t row_bytes = n * static_cast<std::int64_t>(size_of(dtype));
  return randn({cpu::most_cached_bytes() / row_bytes + 3, n}).to(dtype) * 5;
}

using Op = Tensor (*)(const Tensor& x, const Tensor& y, std::int64_t dim);

/// Forward, where y is unused, and backward, where x is the gradient and y the output.
constexpr Op kOps[] = {
    [](const Tensor& x, const Tensor&, std::int64_t dim) { return softmax(x, dim); },
    [](const Tensor& x, const Tensor&, std::int64_t dim) { return log_softmax(x, dim); },
    softmax_backward,
    log_softmax_backward,
};

void expect_bits(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.sizes().vec(), expected.sizes().vec());
  const Tensor a = actual.contiguous(), b = expected.contiguous();
  EXPECT_EQ(std::memcmp(a.raw_data(), b.raw_data(), a.nbytes()), 0);
}

/// The same row by row: those results stay in the caches.
void expect_bits_of_few_rows(const Tensor& x, Op op) {
  const Tensor y = flip(x, {0}) * 0.1;
  const Tensor result = op(x, y, 1);
  constexpr std::int64_t kStep = 97;
  for (std::int64_t row = 0; row < x.sizes()[0]; row += kStep) {
    SCOPED_TRACE(row);
    const std::int64_t end = std::min(row + kStep, x.sizes()[0]);
    const Tensor expected =
        op(slice(x, 0, row, end).contiguous(), slice(y, 0, row, end).contiguous(), 1);
    expect_bits(slice(result, 0, row, end), expected);
  }
}

TEST(Softmax, OfManyRowsHasTheBitsOfFew) {
  for (const int n : some({256, 300, 1000, 1001, 1024, 1025, 2500, 4096, 8000})) {
    SCOPED_TRACE(n);
    const Tensor x = many_rows(n, kFloat32);
    for (const Op op : kOps) expect_bits_of_few_rows(x, op);
  }
  for (const std::int64_t n : {1003, 4096}) {
    const Tensor x = many_rows(n, kFloat64);
    for (const Op op : kOps) expect_bits_of_few_rows(x, op);
  }
}

/// Of [before, n, after] along n, against rows.
void expect_bits_of_rows(const Tensor& x, const Tensor& y) {
  const auto rows = [](const Tensor& t) { return movedim(t, 1, -1).contiguous(); };
  for (const Op op : kOps) {
    const Tensor columns = op(x, y, 1);
    EXPECT_EQ(columns.strides().vec(), x.strides().vec());
    expect_bits(movedim(columns, 1, -1), op(rows(x), rows(y), -1));
  }
}

TEST(Softmax, OfColumnsHasTheBitsOfRows) {
  manual_seed(5);
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const int n : some({1, 2, 21, 255, 256, 300, 1001})) {
      for (const std::int64_t after : {2, 3, 7, 8, 15, 16, 17, 31, 33, 49, 300}) {
        SCOPED_TRACE(testing::Message() << n << ", " << after);
        const Tensor x = (randn({3, n, after}) * 5).to(dtype);
        expect_bits_of_rows(x, flip(x, {0}) * 0.1);
      }
    }
  }
}

TEST(Softmax, OfLongColumnsHasTheBitsOfRows) {
  for (const std::int64_t after : {3, 20}) {
    const Tensor x = randn({3, 40000, after}) * 5, y = flip(x, {0}) * 0.1;
    expect_bits_of_rows(x, y);
    expect_bits_of_rows(slice(x, 0, 1, 3), slice(y, 0, 1, 3));  // that begin within a storage
  }
}

TEST(Softmax, OfManyColumnsHasTheBitsOfRows) {
  for (const std::int64_t after : {64 * 64, 61 * 67}) {
    const Tensor x = randn({cpu::most_cached_bytes() / (4 * 21 * after) + 1, 21, after}) * 5;
    expect_bits_of_rows(x, flip(x, {0}) * 0.1);
  }
}

TEST(Softmax, KeepsTheLayout) {
  const Tensor x = randn({2, 5, 6, 7}) * 3, last = x.to(kChannelsLast);
  for (const Op op : kOps) {
    for (int dim = 0; dim < 4; ++dim) {
      SCOPED_TRACE(dim);
      const Tensor expected = op(x, x, dim), actual = op(last, last, dim);
      EXPECT_EQ(actual.strides().vec(), last.strides().vec());
      expect_bits(actual, expected);
      expect_bits(op(x, last, dim), expected);  // operands that lie differently
      expect_bits(op(transpose(x, 2, 3), transpose(x, 2, 3), dim == 1 ? 1 : 0),
                  transpose(op(x, x, dim == 1 ? 1 : 0), 2, 3));
      const Tensor gaps = slice(cat({x, x}, 3), 3, 0, 7);
      expect_bits(op(gaps, gaps, dim), expected);
    }
  }
}

TEST(Softmax, HasTheSameBitsOnAnyNumberOfThreads) {
  const Tensor rows = many_rows(1000, kFloat32), few = slice(rows, 0, 0, 100).contiguous();
  const Tensor columns = reshape(slice(rows, 0, 0, rows.size(0) / 8 * 8), {8, 25, -1, 40});
  for (const Op op : kOps) {
    expect_same_bits_on_all_threads(
        [&]() -> Results {
          return {op(rows, rows, 1), op(few, few, 1), op(columns, columns, 1)};
        },
        "softmax");
  }
}

/// Losses of rows that stay in the caches and of such that do not.
TEST(CrossEntropy, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const std::int64_t classes : {100, 1000}) {
    const Tensor many = many_rows(classes, kFloat32), few = slice(many, 0, 0, 300);
    const Tensor weight = rand({classes}) + 0.5, target = randint(0, classes, {many.size(0)});
    expect_same_bits_on_all_threads(
        [&] {
          Results results;
          for (const Tensor& x : {few, many}) {
            for (const char* reduction : {"none", "mean"}) {
              for (const double smoothing : {0.0, 0.1}) {
                results.push_back(std::get<0>(cross_entropy_loss(x, slice(target, 0, 0, x.size(0)),
                                                                 weight, reduction, 3, smoothing)));
              }
            }
          }
          return results;
        },
        "cross_entropy_loss");
  }
}

TEST(CrossEntropy, OfManyRowsHasTheBitsOfFew) {
  for (const std::int64_t classes : {100, 1000}) {
    const Tensor x = many_rows(classes, kFloat32);
    const Tensor target = randint(0, classes, {x.size(0)});
    for (const double smoothing : {0.0, 0.1}) {
      const auto losses = [&](std::int64_t first, std::int64_t last) {
        return cross_entropy_loss(slice(x, 0, first, last), slice(target, 0, first, last), {},
                                  "none", -100, smoothing);
      };
      const auto [all, log_probs] = losses(0, x.size(0));
      expect_bits(log_probs, log_softmax(x, 1));
      const std::int64_t step = x.size(0) / 17;
      for (std::int64_t row = 0; row + step <= x.size(0); row += step) {
        expect_bits(slice(all, 0, row, row + step), std::get<0>(losses(row, row + step)));
      }
    }
  }
}

TEST(CrossEntropy, OfNothingIsZeroAndHasNoMean) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const double smoothing : {0.0, 0.1}) {
      const auto loss = [&](IntList size, const Tensor& target, const char* reduction) {
        const Tensor x = zeros(size, dtype).requires_grad_();
        const Tensor result = cross_entropy(x, target, {}, reduction, -100, smoothing);
        result.sum().backward();
        EXPECT_EQ(x.grad().sizes(), size);
        return result;
      };
      const Tensor ignored = tensor({-100, -100}), nothing = zeros({0}, kInt64);
      EXPECT_TRUE(std::isnan(loss({2, 0}, ignored, "mean").item<double>()));
      EXPECT_EQ(loss({2, 0}, ignored, "sum").item<double>(), 0);
      expect_values(loss({2, 0}, ignored, "none"), {0, 0});
      for (const Dims& size : {Dims{0, 0}, Dims{0, 5}, Dims{0, 1000}}) {
        EXPECT_ERROR(ShapeError, "has no mean", loss(size, nothing, "mean"));
        EXPECT_EQ(loss(size, nothing, "sum").item<double>(), 0);
        EXPECT_EQ(loss(size, nothing, "none").numel(), 0);
      }
      EXPECT_ERROR(IndexError, "cross_entropy", loss({2, 0}, tensor({-100, 0}), "sum"));
    }
  }
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
