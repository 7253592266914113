// gather, scatter and scatter_add for the shapes that choose their loops.
#include <gtest/gtest.h>

#include <vector>

#include <fmt/ranges.h>

#include <facula/generator.h>
#include <facula/ops.h>

#include "tests/support/expect.h"

namespace facula {
namespace {

// Few entries along the last dimension, whose columns are those of the one before, too.
TEST(Indexed, ShapesOfAllLoops) {
  manual_seed(3);
  constexpr std::int64_t kPlaces = 9;
  const std::vector<std::pair<Dims, int>> problems = {
      {{1000, 1}, 1}, {{1000, 3}, 1}, {{7, 300, 2}, 2},  {{300, 40}, 1},    {{300, 40}, 0},
      {{5}, 0},       {{3, 1, 4}, 1}, {{2, 5, 6, 7}, 3}, {{40, 50, 60}, 2},
  };
  for (const auto& [sizes, dim] : problems) {
    SCOPED_TRACE(fmt::format("{} along {}", sizes, dim));
    Dims table = sizes;
    table[dim] = kPlaces;
    const Tensor self = randn(table), index = randint(0, kPlaces, sizes), values = randn(sizes);
    const auto from = self.to_vector<double>(), added = values.to_vector<double>();
    const auto places = index.to_vector<std::int64_t>();
    std::int64_t inner = 1;
    for (int d = dim + 1; d < self.dim(); ++d) inner *= sizes[d];
    std::vector<double> gathered, scattered = from, sums = from;
    for (std::size_t i = 0; i < added.size(); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      const std::int64_t outer = position / (sizes[dim] * inner);
      const auto place =
          static_cast<std::size_t>((outer * kPlaces + places[i]) * inner + position % inner);
      gathered.push_back(from[place]);
      scattered[place] = added[i];
      sums[place] += added[i];
    }
    expect_values(gather(self, dim, index), gathered, 0);
    expect_values(scatter(self, dim, index, values), scattered, 0);
    expect_values(scatter_add(self, dim, index, values), sums, 1e-4);
    const Tensor list = index.flatten().narrow(0, 0, sizes[dim]);
    Dims alike = Dims::filled(static_cast<int>(sizes.size()), 1);
    alike[dim] = sizes[dim];
    EXPECT_TRUE(equal(index_select(self, dim, list),
                      gather(self, dim, list.view(alike).expand(sizes).contiguous())));
  }
}

struct Writes {
  Tensor index, rows, source;

  /// Runs all of them one after the other.
  void write(const Tensor& x) const {
    x.scatter_(1, index, source);
    x.scatter_add_(1, index, source);
    x.index_add_(0, rows, source.narrow(0, 0, rows.size(0)), -2);
    x.masked_fill_(x > 1, 0.5);
  }
  Tensor result(const Tensor& x) const {
    const Tensor scattered = scatter_add(scatter(x, 1, index, source), 1, index, source);
    const Tensor added = index_add(scattered, 0, rows, source.narrow(0, 0, rows.size(0)), -2);
    return masked_fill(added, added > 1, 0.5);
  }
};

TEST(Indexed, InPlaceIsLikeACopy) {
  manual_seed(5);
  const Writes all = {randint(0, 40, {30, 40}), randint(0, 30, {7}), randn({30, 40})};
  const Writes narrow = {all.index.to(kInt32), all.rows.to(kInt32), all.source};
  for (const Writes& writes : {all, narrow}) {
    const Tensor dense = randn({30, 40}), wide = randn({31, 43}), turned = randn({40, 30});
    for (const Tensor& x : {dense, wide.index({Slice(1), Slice(2, 42)}), turned.t()}) {
      const Tensor expected = writes.result(x.clone());
      const std::uint32_t version = x.version();
      writes.write(x);
      EXPECT_TRUE(equal(x, expected)) << x.strides().str();
      EXPECT_GE(x.version(), version + 4);
    }
  }
}

TEST(Indexed, OperandsInTheMemoryOfTheResultAreReadFirst) {
  const Tensor index = arange(0, 5, 1, kInt64), x = randn({5});
  const Tensor expected = scatter_add(x.clone(), 0, flip(index, {0}), x.clone());
  x.scatter_add_(0, flip(index, {0}), x);
  EXPECT_TRUE(equal(x, expected));
  const Tensor mask = tensor({true, false, true, true}, {-1}, kBool);
  const Tensor filled = masked_fill(mask.clone(), flip(mask, {0}), false);
  mask.masked_fill_(flip(mask, {0}), false);
  EXPECT_TRUE(equal(mask, filled));
}

TEST(Indexed, NothingIsWrittenWhereAnIndexIsOutOfRange) {
  const Tensor x = randn({100, 300}), before = x.clone(), source = randn({100, 300});
  Tensor index = randint(0, 300, {100, 300});
  for (const std::int64_t wrong : {-1, 300}) {
    index.select(0, 99).select(0, 299).fill_(wrong);
    EXPECT_ERROR(IndexError, "out of range for a dimension of size 300",
                 x.scatter_(1, index, source));
    EXPECT_ERROR(IndexError, "out of range for a dimension of size 300",
                 x.scatter_add_(1, index, source));
  }
  const Tensor rows = arange(0, 101, 1, kInt64);
  EXPECT_ERROR(IndexError, "out of range for a dimension of size 100",
               x.index_add_(0, rows, randn({101, 300})));
  EXPECT_TRUE(equal(x, before));
}

}  // namespace
}  // namespace facula
