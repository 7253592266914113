// argmax and argmin by the definition: the first of equal elements, the first NaN.
#include <facula/generator.h>
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

/// Places of extremes along the middle one of three dimensions.
std::vector<std::int64_t> by_definition(const Tensor& x, bool greatest) {
  const std::vector<double> values = x.to_vector<double>();
  const std::int64_t n = x.size(1), inner = x.size(2);
  std::vector<std::int64_t> places;
  for (std::int64_t line = 0; line < x.size(0) * inner; ++line) {
    const double* first = values.data() + line / inner * n * inner + line % inner;
    std::int64_t place = 0;
    for (std::int64_t i = 1; i < n; ++i) {
      const double own = first[i * inner], best = first[place * inner];
      if (std::isnan(best)) break;
      if (std::isnan(own) || (greatest ? own > best : own < best)) place = i;
    }
    places.push_back(place);
  }
  return places;
}

/// Few different values, so that most are met several times; of floats also both zeros and
/// infinities, and a few NaN.
Tensor values(const Dims& sizes, DType dtype, double nan_share) {
  const Tensor x = randint(0, 40, sizes, dtype == kBool ? kUInt8 : dtype);
  if (dtype == kBool) return x > 30;
  if (!is_floating_point(dtype)) return x;
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor y = where(x < 2, -infinity, x - 20);
  y = where(rand(sizes) < 0.1, -0.0, y);
  return where(rand(sizes) < nan_share, std::nan(""), y).to(dtype);
}

const Dims kSizes[] = {
    {40, 1, 1},     {9, 7, 1},      {30, 33, 1},     {5, 400, 1},   {3, 70'001, 1},  // rows
    {70, 17, 1},    {20, 130, 1},   {1, 200'003, 1},                                 // all of them
    {2, 90, 3},     {3, 40'000, 1}, {2, 9, 15},      {1, 3001, 16}, {2, 5, 65},      // columns
    {1, 40'001, 5}, {3, 131, 700},  {1, 300, 4100}};

TEST(Extremes, AreTheFirstOfEqualElements) {
  manual_seed(5);
  for (const DType dtype : {kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    for (const Dims& sizes : some(kSizes)) {
      for (const double nan_share : {0.0, 0.5 / static_cast<double>(sizes[1])}) {
        const Tensor x = values(sizes, dtype, nan_share);
        // As it is; with the lines side by side or one after the other; with gaps.
        const Tensor turned = x.permute({1, 2, 0}).contiguous().permute({2, 0, 1});
        const Tensor along = x.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
        const Tensor apart = stack({x, x}, 3).select(3, 1);
        const auto largest = by_definition(x, true), smallest = by_definition(x, false);
        for (const Tensor& layout : {x, turned, along, apart}) {
          const std::string which =
              fmt::format("{} {} strides {}", name_of(dtype), x.sizes(), layout.strides());
          EXPECT_EQ(argmax(layout, 1).to_vector<std::int64_t>(), largest) << which;
          EXPECT_EQ(argmin(layout, 1, true).to_vector<std::int64_t>(), smallest) << which;
        }
        const Tensor flat = x.reshape({1, x.numel(), 1});
        EXPECT_EQ(argmax(along).item<std::int64_t>(), by_definition(flat, true)[0]);
      }
    }
  }
}

}  // namespace
}  // namespace facula
