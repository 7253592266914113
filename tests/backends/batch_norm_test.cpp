#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

Results forward_and_backward(const Tensor& x, const Tensor& residual, const Tensor& weight,
                             const Tensor& bias) {
  const auto [y, mean, inverse, variance] = batch_norm_train(x, weight, bias);
  const auto [dx, dweight, dbias] = batch_norm_backward(residual, x, weight, mean, inverse);
  const auto [fused, m, v] = batch_norm_relu(x, weight, bias, residual);
  return {y, mean, inverse, variance, dx, dweight, dbias, fused, m, v};
}

// Planes of several parts, the last of them short, several planes and rows to a slice, and more
// channels than a cache line holds.
const Dims kSizes[] = {
    {2, 3, 150, 231}, {2, 5, 128, 128}, {5, 40, 30, 31}, {3, 7, 1, 1}, {2, 2, 16385}};

TEST(BatchNorm, AgreesWithTheReference) {
  Source source(1);
  for (const Dims& sizes : problems(kSizes)) {
    const bool images = sizes.size() == 4;
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      if (!images && format == kChannelsLast) continue;
      for (DType dtype : {kFloat32, kFloat64}) {
        const Tensor x = source.values(sizes, dtype, format) + 0.5;
        const Tensor residual = source.values(sizes, dtype, format);
        const Tensor weight = source.values({sizes[1]}, dtype);
        const Tensor bias = source.values({sizes[1]}, dtype);
        expect_like_reference([&] { return forward_and_backward(x, residual, weight, bias); },
                              dtype == kFloat32 ? 2e-5 : 1e-11, fmt::format("{}", sizes));
      }
    }
  }
}

TEST(BatchNorm, SameBitsOnAllThreads) {
  Source source(2);
  for (const Dims& sizes : {Dims{2, 3, 150, 231}, Dims{9, 33, 40, 41}}) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Tensor x = source.values(sizes, kFloat32, format);
      const Tensor residual = source.values(sizes, kFloat32, format);
      const Tensor weight = source.values({sizes[1]}), bias = source.values({sizes[1]});
      expect_same_bits_on_all_threads(
          [&] { return forward_and_backward(x, residual, weight, bias); },
          fmt::format("{}", sizes));
    }
  }
}

// Results beyond the caches are stored in another way. Several rows, one, or none fit its buffer.
TEST(BatchNorm, LargeResultsAreLikeSmallOnes) {
  Source source(3);
  for (std::int64_t channels : {24, 200, 600}) {
    const auto image = [&] {
      return source.values({1, channels, 31, 33}, kFloat32, kChannelsLast);
    };
    const Tensor x = image(), y = image(), mean = source.values({channels});
    const Tensor a = source.values({channels}), b = source.values({channels});
    const std::int64_t count = copies_past_caches(x);
    const Tensor many_x = copies_of(x, count), many_y = copies_of(y, count);
    const auto mapped = [&](const Tensor& of, const Tensor& residual) -> Results {
      return {channel_affine(of, a, b), channel_affine_relu(of, a, b, residual)};
    };
    // The gradient's sums are as many times as large, so the means in it are the same.
    const auto gradients = [&](const Tensor& grad, const Tensor& of) -> Results {
      return {std::get<0>(batch_norm_backward(grad, of, a, mean, abs(b))),
              std::get<0>(batch_norm_relu_backward(grad, of, a, b, mean, abs(b)))};
    };
    const Results small = mapped(x, y), large = mapped(many_x, many_y);
    const Results small_gradients = gradients(y, x), large_gradients = gradients(many_y, many_x);
    for (std::int64_t i : {std::int64_t{0}, count / 2, count - 1}) {
      for (std::size_t k : {0, 1}) {
        EXPECT_EQ(bytes_of(large[k].narrow(0, i, 1)), bytes_of(small[k])) << channels;
        expect_close(large_gradients[k].narrow(0, i, 1), small_gradients[k], 1e-6, "gradient");
      }
    }
  }
}

// What memory held before must not reach the gradients: 0 times infinity is NaN.
TEST(BatchNorm, EmptyBatchesHaveDefinedStatistics) {
  const std::vector<double> zero(3, 0);
  for (const Dims& sizes : {Dims{0, 3, 2, 2}, Dims{2, 3, 0, 2}}) {
    const Tensor x = zeros(sizes);
    static_cast<void>(full({3}, HUGE_VAL));  // what new memory holds
    const auto [y, means, inverses, variances] = batch_norm_train(x, {}, {}, 0.25);
    EXPECT_EQ(means.to_vector<double>(), zero);
    EXPECT_EQ(inverses.to_vector<double>(), std::vector<double>(3, 2));
    EXPECT_EQ(variances.to_vector<double>(), zero);
    const auto [dx, dweight, dbias] = batch_norm_backward(x, x, {}, means, inverses);
    EXPECT_EQ(dweight.to_vector<double>(), zero);
    expect_like_reference([&] { return forward_and_backward(x, x, ones({3}), ones({3})); }, 1e-6,
                          fmt::format("{}", sizes));
  }
}

// Adding up a plane of a million equal numbers in float32 loses three digits of the sum, and with
// the mean all of a small variance.
TEST(BatchNorm, LargePlanesLoseNoDigits) {
  constexpr std::int64_t kSide = 1024;
  const Tensor signs = remainder(arange(kSide * kSide, kFloat64), 2) * 2 - 1;
  const Tensor values = (signs * 1e-4 + 0.1).view({1, 1, kSide, kSide}).to(kFloat32);
  const Tensor exact = values.to(kFloat64);
  const double variance = mean(square(exact - mean(exact))).item<double>();
  const Tensor planes = values.expand({1, 2, kSide, kSide});
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Tensor x = planes.contiguous(format), g = full_like(x, 0.1f).contiguous(format);
    const auto [y, means, inverses, variances] = batch_norm_train(x);
    const auto [dx, dweight, dbias] = batch_norm_backward(g, x, {}, means, inverses);
    const double sum = static_cast<double>(0.1f) * kSide * kSide;
    EXPECT_NEAR(variances.to_vector<double>()[1] / variance, 1, 1e-4);
    EXPECT_NEAR(dbias.to_vector<double>()[1] / sum, 1, 1e-5);
  }
}

TEST(BatchNorm, MeansFarFromZeroCostNoDigits) {
  const Tensor noise = Source(7).values({8, 16, 32, 32}, kFloat64);
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    const auto normalized = [&](const Tensor& x) { return std::get<0>(batch_norm_train(x)); };
    const Tensor constant = full({16, 16, 32, 32}, 3.3).contiguous(format);
    EXPECT_EQ(normalized(constant).abs().amax().item(), 0);
    const Tensor x = (noise + 100).to(kFloat32).contiguous(format);
    EXPECT_LT((normalized(x).to(kFloat64) - normalized(x.to(kFloat64))).abs().amax().item(), 5e-5);
    Tensor hole = x.clone();
    hole[0][3][0][0] = std::numeric_limits<double>::infinity();  // an element of the first row
    EXPECT_TRUE(normalized(hole).select(1, 3).isnan().any().item<bool>());
    EXPECT_TRUE(normalized(hole).select(1, 4).isfinite().all().item<bool>());
  }
}

// Wherever they are: in the first row of a slice, or in its midst.
TEST(BatchNorm, OutliersCostNoDigits) {
  for (const Dims& sizes : {Dims{4096, 8}, Dims{300, 600}}) {
    const Tensor values = Source(8).values(sizes, kFloat32);
    for (const double outlier : {1e4, 1e8, 1e18, 1e36}) {
      for (const std::int64_t row : {0, 1, 200}) {
        SCOPED_TRACE(fmt::format("{} in row {} of {}", outlier, row, sizes));
        const Tensor x = values.clone();
        x[row].fill_(outlier);
        const auto [variance, mean] = var_mean(x, {0});
        const auto [exact_variance, exact_mean] = var_mean(x.to(kFloat64), {0});
        EXPECT_LT((mean.to(kFloat64) / exact_mean - 1).abs().amax().item(), 2e-5);
        if (outlier > 1e18) continue;  // its square is no float32
        EXPECT_LT((variance.to(kFloat64) / exact_variance - 1).abs().amax().item(), 2e-5);
        EXPECT_TRUE(std::get<0>(batch_norm_train(x)).isfinite().all().item<bool>());
      }
    }
  }
}

}  // namespace
}  // namespace facula
