// How reductions walk through memory: runs, planes, columns, and their slices.
#include <algorithm>

#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

struct Problem {
  Dims sizes;
  Dims dims;

  std::string str() const { return fmt::format("{} over {}", sizes, dims); }
};

const Problem kProblems[] = {
    {{64, 3, 20, 20}, {0, 2, 3}},   // several images to a slice
    {{5, 2, 190, 191}, {0, 2, 3}},  // planes larger than a slice
    {{30, 1500, 3, 7}, {0, 2, 3}},  // more channels than a slice takes
    {{9, 64, 33, 31}, {0, 2, 3}},   // as many channels as a kernel has lanes
    {{4, 130, 17, 19}, {0, 2, 3}},  // more, and not a multiple
    {{3, 5000, 4}, {0, 2}},         // short runs
    {{600, 7, 80, 2}, {1, 3}},      // and several kept dimensions
    {{70001}, {0}},                 // one result
    {{2, 70001}, {1}},              // long rows
    {{700, 300}, {1}},              // rows that share slices
    {{500, 4200}, {0}},             // columns, more than one block
    {{3, 40, 4200}, {1}},           // as many of each of several matrices
    {{3, 300, 70}, {1}},            // columns of each of several matrices
    {{900, 10, 16}, {1}},           // of many small ones
    {{4000, 7, 5}, {1}},
    {{100, 9000}, {0}},  // few rows
    {{20, 30, 40, 50}, {0, 1, 3}},
    {{2, 3, 4}, {}},
};

/// Sums, maxima and minima by the definition.
std::vector<std::vector<double>> by_definition(const Tensor& x, const Problem& p) {
  const std::vector<double> values = x.to_vector<double>();
  std::vector<std::int64_t> result_strides(p.sizes.size());
  std::int64_t results = 1;
  for (std::size_t d = p.sizes.size(); d-- > 0;) {
    if (p.dims.empty() || std::count(p.dims.begin(), p.dims.end(), d) > 0) continue;
    result_strides[d] = results;
    results *= p.sizes[d];
  }
  std::vector<double> sums(results, 0), maxima(results, -1e9), minima(results, 1e9);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), at = 0;
    for (std::size_t d = p.sizes.size(); d-- > 0; rest /= p.sizes[d]) {
      at += rest % p.sizes[d] * result_strides[d];
    }
    sums[at] += values[i];
    maxima[at] = std::max(maxima[at], values[i]);
    minima[at] = std::min(minima[at], values[i]);
  }
  return {sums, maxima, minima};
}

std::vector<Tensor> in_every_layout(const Tensor& x) {
  std::vector<Tensor> layouts = {x};
  if (x.dim() == 4) layouts.push_back(x.contiguous(kChannelsLast));
  if (x.dim() == 2) layouts.push_back(x.permute({1, 0}).contiguous().permute({1, 0}));
  return layouts;
}

// Small integers: float32 sums are exact in any order.
TEST(Reduction, FollowsTheDefinition) {
  Source source(1);
  for (const Problem& p : kProblems) {
    const Tensor values = floor(source.values(p.sizes) * 4);
    const auto expected = by_definition(values, p);
    for (const Tensor& x : in_every_layout(values)) {
      EXPECT_TRUE(sum(x, p.dims).to_vector<double>() == expected[0]) << p.str();
      EXPECT_TRUE(amax(x, p.dims).to_vector<double>() == expected[1]) << p.str();
      EXPECT_TRUE(amin(x, p.dims).to_vector<double>() == expected[2]) << p.str();
    }
  }
}

// They are turned, so that whole vectors of rows are added up; always in the order of elements.
TEST(Reduction, RowsOfFewElements) {
  Source source(7);
  for (const std::int64_t rows : {1, 16, 63, 64, 1100, 5000}) {
    for (const std::int64_t n : {2, 3, 4}) {
      const Tensor x = source.values({rows, n}),
                   part = source.values({2, rows, n + 1}).narrow(2, 0, n);
      for (const Tensor& values : {x, x.to(kFloat64), part}) {
        Tensor expected = values.select(-1, 0), greatest = expected;
        for (std::int64_t i = 1; i < n; ++i) {
          expected = expected + values.select(-1, i);
          greatest = maximum(greatest, values.select(-1, i));
        }
        EXPECT_TRUE(equal(sum(values, {-1}), expected)) << rows << " of " << n;
        EXPECT_TRUE(equal(amax(values, {-1}), greatest)) << rows << " of " << n;
      }
      for (const DType dtype : {kInt32, kInt64, kUInt8, kBool}) {
        const Tensor numbers = (abs(x) * 3).to(dtype);
        const Tensor expected = sum(numbers.to(kFloat64), {1});
        EXPECT_TRUE(equal(sum(numbers, {1}).to(kFloat64), expected)) << name_of(dtype);
        EXPECT_TRUE(equal(any(numbers, {1}), expected != 0)) << name_of(dtype);
      }
    }
  }
}

// Totals of 8 bytes and of one, of which other numbers go into a block of columns.
TEST(Reduction, ColumnsOfEveryWidth) {
  Source source(4);
  for (const Problem& p :
       {Problem{{30, 2100}, {0}}, Problem{{2, 30, 16500}, {1}}, Problem{{700, 25, 4}, {1}},
        Problem{{300, 64, 15}, {1}}, Problem{{3, 65, 15}, {1}}, Problem{{70, 3, 20, 2}, {1}}}) {
    const Tensor values = floor(source.values(p.sizes) * 4);
    const auto expected = by_definition(values, p);
    EXPECT_TRUE(sum(values.to(kFloat64), p.dims).to_vector<double>() == expected[0]) << p.str();
    EXPECT_TRUE(sum(values.to(kInt32), p.dims).to_vector<double>() == expected[0]) << p.str();
    EXPECT_TRUE(equal(any(values > 5, p.dims), amax(values, p.dims) > 5)) << p.str();
    EXPECT_TRUE(equal(all(values > -5, p.dims), amin(values, p.dims) > -5)) << p.str();
  }
}

TEST(Reduction, MinimaAndMaximaOfNan) {
  Source source(5);
  for (const Problem& p : kProblems) {
    const Tensor values = source.values(p.sizes);
    for (const std::int64_t place : {std::int64_t{0}, values.numel() / 2, values.numel() - 1}) {
      Tensor with = values.clone();
      with.view({-1}).select(0, place).fill_(std::numeric_limits<float>::quiet_NaN());
      const Tensor met = any(isnan(with), p.dims);
      EXPECT_EQ(met.sum().item<int>(), 1);
      for (const Tensor& x : in_every_layout(with)) {
        EXPECT_TRUE(equal(isnan(amin(x, p.dims)), met)) << p.str();
        EXPECT_TRUE(equal(isnan(amax(x, p.dims)), met)) << p.str();
        EXPECT_TRUE(equal(where(met, 0, amin(x, p.dims)), where(met, 0, amin(values, p.dims))));
        EXPECT_TRUE(equal(where(met, 0, amax(x, p.dims)), where(met, 0, amax(values, p.dims))));
      }
    }
  }
}

// Beyond the caches columns go by eight rows at once, and sums of 64 rows are joined.
TEST(Reduction, ColumnsBeyondTheCaches) {
  Source source(8);
  for (const Problem& p : {Problem{{5, 64, 16500}, {1}}, Problem{{1299, 4100}, {0}}}) {
    const Tensor values = floor(source.values(p.sizes) * 4);
    const auto expected = by_definition(values, p);
    expect_same_bits_with_any_caches(
        [&] {
          const Results results = {sum(values, p.dims), amax(values, p.dims), amin(values, p.dims)};
          for (std::size_t i = 0; i < results.size(); ++i) {
            EXPECT_TRUE(results[i].to_vector<double>() == expected[i]) << p.str() << i;
          }
          return results;
        },
        p.str());
    const Tensor x = source.values(p.sizes);
    expect_same_bits_with_any_caches(
        [&] {
          return Results{sum(x, p.dims), var(x, p.dims)};
        },
        p.str());
  }
}

// Columns go by four rows at once, and the rest one by one.
TEST(Reduction, NanInEveryRowOfColumns) {
  Source source(6);
  for (const std::int64_t rows : {4, 11, 71}) {
    const Tensor values = source.values({rows, 3 * rows});
    Tensor with = values.clone();
    const Tensor met = zeros({3 * rows}, kBool);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (const std::int64_t column : {r, 2 * rows + r}) {
        with.select(0, r).select(0, column).fill_(std::numeric_limits<float>::quiet_NaN());
        met.select(0, column).fill_(true);
      }
    }
    EXPECT_TRUE(equal(isnan(amin(with, {0})), met)) << rows;
    EXPECT_TRUE(equal(isnan(amax(with, {0})), met)) << rows;
    EXPECT_TRUE(equal(where(met, 0, amin(with, {0})), where(met, 0, amin(values, {0})))) << rows;
    EXPECT_TRUE(equal(where(met, 0, amax(with, {0})), where(met, 0, amax(values, {0})))) << rows;
  }
}

TEST(Reduction, AnyAndAllFindTheOnlyElement) {
  for (const DType dtype : {kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    for (const std::int64_t place : {0, 70, 699}) {
      const Tensor x = zeros({3, 700}).to(dtype);
      x.select(0, 1).select(0, place).fill_(1);
      const Tensor rest = x == 0;
      EXPECT_EQ(any(x, {1}).to_vector<bool>(), (std::vector<bool>{false, true, false}));
      EXPECT_EQ(all(rest.to(dtype), {1}).to_vector<bool>(), (std::vector<bool>{true, false, true}));
      EXPECT_TRUE(any(x).item<bool>() && !any(x * 0).item<bool>());
      EXPECT_TRUE(!all(rest.to(dtype)).item<bool>() && all(x == x).item<bool>());
      EXPECT_EQ(sum(any(x, {0})).item<std::int64_t>(), 1);
      EXPECT_EQ(sum(all(rest.to(dtype), {0})).item<std::int64_t>(), 699);
    }
  }
}

TEST(Reduction, SameBitsOnAllThreads) {
  Source source(2);
  for (const Problem& p : kProblems) {
    for (const Tensor& x : in_every_layout(source.values(p.sizes))) {
      expect_same_bits_on_all_threads([&] { return Results{sum(x, p.dims)}; }, p.str());
    }
  }
}

}  // namespace
}  // namespace facula
