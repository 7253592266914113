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
      {{1000, 1}, 1}, {{1000, 3}, 1}, {{7, 300, 2}, 2}, {{300, 40}, 1},
      {{300, 40}, 0}, {{5}, 0},       {{3, 1, 4}, 1},   {{2, 5, 6, 7}, 3},
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
  }
}

}  // namespace
}  // namespace facula
