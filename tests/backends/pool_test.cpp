#include <limits>

#include <facula/autograd.h>

#include "tests/backends/kernel_check.h"
#include "tests/support/expect.h"

namespace facula {
namespace {

struct Problem {
  Dims input, kernel, stride, padding = {0}, dilation = {1};
  bool ceil_mode = false, count_include_pad = true;

  std::string str() const {
    return fmt::format("input {} kernel {} stride {} padding {} dilation {} ceil_mode {}", input,
                       kernel, stride, padding, dilation, ceil_mode);
  }
};

// Few channels go through several windows at once; 300 positions of 7 channels make several blocks.
// Of one channel, 16, 8 or 4 windows of a line go together.
const Problem kProblems[] = {
    {{3, 6, 28, 28}, {2}, {2}},
    {{2, 16, 10, 10}, {2}, {2}},
    {{2, 1, 9, 7}, {2}, {2}},
    {{2, 15, 13, 12}, {3}, {2}, {1}},
    {{1, 7, 5, 301}, {2}, {1}},
    {{2, 3, 11, 17}, {3}, {1}, {1}, {2}},
    {{2, 64, 7, 9}, {3}, {2}, {1}},
    {{2, 2, 8, 8}, {2}, {2}, {1}},
    {{4, 33, 6, 6}, {2}, {2}},
    {{1, 5, 4, 40}, {3}, {3}, {1}, {1}},
    {{2, 9, 3, 3}, {3}, {1}},
    {{2, 4, 12, 2}, {2}, {2}},
    {{2, 3, 9, 71}, {3}, {2}, {1}},
    {{1, 2, 8, 80}, {2}, {2}},
    // Line by line, of few images and of many, and in either layout by turning.
    {{2, 17, 13, 13}, {5}, {1}, {2}},
    {{1, 33, 20, 21}, {5}, {2}, {2}},
    {{17, 16, 9, 8}, {5, 4}, {1}, {2}},
    {{1, 3, 11, 30}, {7}, {1}, {3}, {1, 2}},
    {{1, 5, 13, 9}, {9}, {1}, {4}},
};

Results max_pool(const Problem& p, const Tensor& x) {
  const auto [y, index] =
      max_pool2d_with_indices(x, p.kernel, p.stride, p.padding, p.dilation, p.ceil_mode);
  const auto gradient = [&](const Tensor& rectified) {
    return max_pool2d_backward(y, index, {x.size(2), x.size(3)}, p.kernel, p.stride, p.padding,
                               p.dilation, p.ceil_mode, rectified);
  };
  return {y, index, gradient({}), gradient(x)};
}

Results average_pool(const Problem& p, const Tensor& x) {
  const Tensor y = avg_pool2d(x, p.kernel, p.stride, p.padding, p.ceil_mode, p.count_include_pad);
  return {y, avg_pool2d_backward(y, {x.size(2), x.size(3)}, p.kernel, p.stride, p.padding,
                                 p.count_include_pad)};
}

TEST(MaxPool, AgreesWithTheReference) {
  Source source(1);
  for (const Problem& p : kProblems) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      for (DType dtype : {kFloat32, kFloat64}) {
        const Tensor x = source.values(p.input, dtype, format);
        expect_like_reference([&] { return max_pool(p, x); }, 1e-6, p.str());
      }
    }
  }
}

/// Windows of any shape over images that hold at least one.
Problem random_problem(Source& source) {
  Problem p = {
      {source.integer(1, 3), source.integer(1, 40)}, {}, {}, {}, {}, source.coin(), source.coin()};
  for (int d = 0; d < 2; ++d) {
    const std::int64_t kernel = source.integer(1, 5), dilation = source.integer(1, 3);
    p.input.push_back(dilation * (kernel - 1) + source.integer(1, d ? 60 : 12));
    p.kernel.push_back(kernel);
    p.stride.push_back(source.integer(1, 4));
    p.padding.push_back(source.integer(0, kernel / 2));
    p.dilation.push_back(dilation);
  }
  return p;
}

TEST(Pooling, RandomProblemsAgreeWithTheReference) {
  Source source(5);
  for (int i = 0; i < problems(300); ++i) {
    const Problem p = random_problem(source);
    const Tensor x = source.values(p.input, i % 3 ? kFloat32 : kFloat64,
                                   source.coin() ? kContiguous : kChannelsLast);
    expect_like_reference([&] { return max_pool(p, x); }, 1e-6, "max, " + p.str());
    expect_like_reference([&] { return average_pool(p, x); }, 1e-6, "average, " + p.str());
  }
}

TEST(MaxPool, GradientsOfWhatReluGaveHaveTheBitsOfTwoOps) {
  Source source(6);
  for (const Problem& p : kProblems) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      Tensor x = relu(source.values(p.input, kFloat32, format));
      x.select(0, 0).select(0, 0).fill_(std::numeric_limits<double>::quiet_NaN());
      const Results results = max_pool(p, x);
      EXPECT_TRUE(bytes_of(results[3]) == bytes_of(relu_backward(results[2], x))) << p.str();
    }
  }
}

TEST(MaxPool, TheFirstOfEqualsAndNaNsWins) {
  Source source(2);
  for (const Problem& p : kProblems) {
    const Tensor x = floor(source.values(p.input));
    const Tensor rare = source.values(p.input) > 2;
    const Tensor values = where(rare, full({}, std::numeric_limits<double>::quiet_NaN()), x);
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Tensor input = values.contiguous(format);
      expect_like_reference(
          [&]() -> Results {
            const Results results = max_pool(p, input);
            return {results[0], results[1]};
          },
          0, p.str());
    }
  }
}

// Of each of the first, three to eight images make a slice; of the others, some lines of an image.
const Problem kManyImages[] = {
    {{21, 16, 13, 12}, {3}, {2}, {1}},    {{20, 7, 17, 18}, {2}, {2}},
    {{20, 33, 9, 9}, {3}, {1}, {1}, {2}}, {{18, 16, 20, 21}, {5}, {1}, {2}},
    {{2, 64, 60, 50}, {3}, {2}, {1}},     {{2, 48, 34, 35}, {5}, {1}, {2}}};

TEST(Pooling, SameBitsOnAllThreads) {
  Source source(3);
  for (const Problem& p : kManyImages) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Tensor x = source.values(p.input, kFloat32, format);
      expect_same_bits_on_all_threads([&] { return max_pool(p, x); }, p.str());
      expect_same_bits_on_all_threads([&] { return average_pool(p, x); }, p.str());
    }
  }
}

// Results beyond the caches are stored in another way.
TEST(MaxPool, LargeResultsAreLikeSmallOnes) {
  Source source(7);
  const Problem p = {{1, 48, 40, 44}, {3}, {2}, {1}};
  const Tensor one = source.values(p.input, kFloat32, kChannelsLast);
  const Results expected = max_pool(p, one);
  const std::int64_t count = copies_past_caches(expected[0]);
  const Results all = max_pool(p, copies_of(one, count));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::int64_t image : {std::int64_t{0}, count / 2, count - 1}) {
      EXPECT_EQ(bytes_of(all[i].narrow(0, image, 1)), bytes_of(expected[i])) << i << ", " << image;
    }
  }
}

// Those of a forward pass come in the order of lines; nothing says that others do.
TEST(MaxPool, IndicesMayPointAnywhereInTheImage) {
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Tensor grad = randn({3, 20, 4, 6}).contiguous(format);
    const Tensor index = randint(0, 9 * 7, grad.sizes()).to(kInt32).contiguous(format);
    expect_like_reference(
        [&] {
          return Results{max_pool2d_backward(grad, index, {9, 7})};
        },
        1e-6, "any indices");
    for (const int wrong : {-1, 9 * 7, std::numeric_limits<int>::min()}) {
      const Tensor bad = index.clone();
      bad.select(0, 2).select(0, 11).select(0, 3).select(0, 5).fill_(wrong);
      EXPECT_ERROR(IndexError, std::to_string(wrong), max_pool2d_backward(grad, bad, {9, 7}));
    }
  }
}

// One position per channel is in every layout at once; the gradient must come back in that of the
// input all the same.
TEST(AveragePool, GradientsKeepTheLayoutOfTheInput) {
  Source source(4);
  const Tensor values = source.values({3, 20, 4, 6}), factors = source.values({3, 20, 1, 1});
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Tensor x = values.detach().contiguous(format).requires_grad_();
    const Tensor y = adaptive_avg_pool2d(x, 1);
    expect_close(y, mean(values, {2, 3}, true), 1e-6, "the mean");
    sum(y * factors).backward();
    EXPECT_TRUE(x.grad().is_contiguous(format));
    expect_close(x.grad(), (factors / 24).expand(x.sizes()), 1e-6, "the gradient");
  }
}

// float32 sums of 0.1 would be 5e-4 off for 224 x 224 of them.
TEST(AveragePool, LargeWindowsLoseNoDigits) {
  for (const Dims& sizes : {Dims{1, 1, 224, 224}, Dims{1, 70, 224, 224}, Dims{2, 3, 9, 1000}}) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Tensor x = full(sizes, 0.1f).contiguous(format);
      for (double mean : adaptive_avg_pool2d(x, 1).to_vector<double>()) {
        EXPECT_NEAR(mean, 0.1f, 2e-8) << fmt::format("{}", sizes);
      }
    }
  }
}

TEST(MaxPool, WindowsMayBeFarLargerThanImages) {
  const Tensor x = randn({16, 20, 8, 8});
  const Tensor all = x.amax({2, 3}, true).expand({16, 20, 8, 8});
  EXPECT_TRUE(equal(max_pool2d(x, {200'000'001}, {1}, {100'000'000}), all));
}

}  // namespace
}  // namespace facula
