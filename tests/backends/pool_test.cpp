#include <limits>

#include <facula/autograd.h>

#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

struct Problem {
  Dims input;
  std::int64_t kernel, stride, padding = 0, dilation = 1;

  std::string str() const {
    return fmt::format("input {} kernel {} stride {} padding {} dilation {}", input, kernel, stride,
                       padding, dilation);
  }
};

// Few channels go through several windows at once; 300 positions of 7 channels make several blocks.
const Problem kProblems[] = {
    {{3, 6, 28, 28}, 2, 2},      {{2, 16, 10, 10}, 2, 2}, {{2, 1, 9, 7}, 2, 2},
    {{2, 15, 13, 12}, 3, 2, 1},  {{1, 7, 5, 301}, 2, 1},  {{2, 3, 11, 17}, 3, 1, 1, 2},
    {{2, 64, 7, 9}, 3, 2, 1},    {{2, 2, 8, 8}, 2, 2, 1}, {{4, 33, 6, 6}, 2, 2},
    {{1, 5, 4, 40}, 3, 3, 1, 1}, {{2, 9, 3, 3}, 3, 1},    {{2, 4, 12, 2}, 2, 2},
};

Results max_pool(const Problem& p, const Tensor& x) {
  const auto [y, index] = max_pool2d_with_indices(x, p.kernel, p.stride, p.padding, p.dilation);
  return {y, index, max_pool2d_backward(y, index, {x.size(2), x.size(3)})};
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

TEST(MaxPool, SameBitsOnAllThreads) {
  Source source(3);
  for (const Problem& p : kProblems) {
    const Tensor x = source.values(p.input, kFloat32, kChannelsLast);
    expect_same_bits_on_all_threads([&] { return max_pool(p, x); }, p.str());
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

}  // namespace
}  // namespace facula
