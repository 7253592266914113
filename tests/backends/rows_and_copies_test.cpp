// Elementwise loops over rows, of which short ones are put together to blocks, and copies of parts
// of tensors.
#include <functional>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <facula/facula.h>

#include "ops/schema/shape.h"
#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

/// Broadcast operands give the bits of operands that were written out before.
void expect_bits_of_whole(const std::string& name, const Function& function,
                          const Tensors& operands) {
  Dims sizes(operands[0].sizes());
  for (const Tensor& x : operands) sizes = broadcast_sizes(sizes, x.sizes(), "test");
  Tensors whole;
  for (const Tensor& x : operands) whole.push_back(x.expand(sizes).contiguous());
  const Tensor actual = function(operands);
  EXPECT_TRUE(actual.sizes() == sizes);
  EXPECT_TRUE(bytes_of(actual.contiguous()) == bytes_of(function(whole)))
      << name << " of size " << fmt::format("{}", IntList(sizes).vec());
}

Tensor sum_of(const Tensors& x) { return x[0] + x[1]; }
Tensor chosen(const Tensors& x) { return where(x[0], x[1], x[2]); }

TEST(ShortRows, HaveTheBitsOfWholeOperands) {
  Source source(1);
  for (const int n : some({1, 2, 3, 10, 31, 32, 33, 64, 100, 128, 129, 700, 1024, 1030})) {
    for (const std::int64_t rows : {1, 2, 7, 40, 1031}) {
      for (const DType dtype : {kFloat32, kFloat64, kUInt8, kInt64}) {
        const auto values = [&](IntList sizes) { return (source.values(sizes) * 9).to(dtype); };
        const Tensor matrix = values({rows, n}), row = values({n}), column = values({rows, 1});
        expect_bits_of_whole("matrix and row", sum_of, {matrix, row});
        expect_bits_of_whole("row and matrix", sum_of, {row, matrix});
        expect_bits_of_whole("matrix and column", sum_of, {matrix, column});
        expect_bits_of_whole("column and row", sum_of, {column, row});
        const Tensor mask = source.values({rows, 1}) > 0;
        expect_bits_of_whole("mask by rows", chosen, {mask, matrix, row});
        expect_bits_of_whole("mask of one row", chosen, {matrix[0] > 0, column, matrix});
      }
    }
  }
}

TEST(ShortRows, BetweenOtherDimensions) {
  Source source(2);
  for (const std::int64_t c : {1, 5, 16, 33}) {
    const Tensor images = source.values({3, c, 9, 11}), bias = source.values({c, 1, 1});
    const Tensor last = images.contiguous(kChannelsLast);
    expect_bits_of_whole("planes and channels", sum_of, {images, bias});
    expect_bits_of_whole("channels_last and channels", sum_of, {last, bias});
    EXPECT_TRUE((last + bias).is_contiguous(kChannelsLast));
    expect_bits_of_whole("images apart", sum_of, {last, source.values({3, c, 1, 1})});
    expect_bits_of_whole("lines apart", sum_of, {images, source.values({9, 1})});
    expect_bits_of_whole("parts", sum_of, {images.narrow(3, 1, 7), bias});
    expect_bits_of_whole("parts of lines", sum_of, {images.narrow(2, 1, 5), source.values({11})});
  }
}

TEST(ShortRows, PastTheCaches) {
  Source source(3);
  const std::int64_t n = 32, rows = cpu::most_cached_bytes() / (4 * n) + 5;
  const Tensor matrix = rand({rows, n}), row = rand({n}), column = rand({rows, 1});
  expect_bits_of_whole("matrix and row", sum_of, {matrix, row});
  expect_bits_of_whole("matrix and column", sum_of, {matrix, column});
  const Tensor written = matrix.clone();
  written.add_(row);
  EXPECT_TRUE(bytes_of(written) == bytes_of(matrix + row));
}

TEST(Copies, OfReversedRows) {
  Source source(4);
  for (const std::int64_t n : {1, 2, 5, 16, 63, 200}) {
    for (const DType dtype : {kFloat32, kFloat64, kUInt8, kFloat16, kBool, kInt32}) {
      const Tensor x = (source.values({3, n}) * 9).to(dtype);
      const std::vector<double> from = x.to_vector<double>(), to = x.flip({1}).to_vector<double>();
      for (std::int64_t i = 0; i < 3 * n; ++i) {
        ASSERT_EQ(to[i], from[i / n * n + n - 1 - i % n]) << n << " of " << name_of(dtype);
      }
    }
  }
}

TEST(Copies, OfShortRows) {
  Source source(7);
  for (const std::int64_t n : {1, 3, 4, 5, 15, 16, 17, 40, 63, 64, 65, 130, 300}) {
    for (const DType dtype : {kFloat32, kFloat64, kUInt8, kFloat16, kBool, kInt16}) {
      const Tensor a = (source.values({3, 90, n}) * 9).to(dtype), b = a.narrow(1, 0, 40).clone();
      const Tensor joined = cat({a, b}, 1), rows = a.narrow(1, 7, 1).expand({3, 90, n}).clone();
      for (std::int64_t i = 0; i < 3; ++i) {
        const Tensor image = joined.select(0, i);
        EXPECT_TRUE(bytes_of(image.narrow(0, 0, 90)) == bytes_of(a.select(0, i).clone()));
        EXPECT_TRUE(bytes_of(image.narrow(0, 90, 40)) == bytes_of(b.select(0, i).clone()));
        const Tensor row = a.select(0, i).narrow(0, 7, 1).clone();
        for (const std::int64_t j : {0, 1, 89}) {
          EXPECT_TRUE(bytes_of(rows.select(0, i).narrow(0, j, 1).clone()) == bytes_of(row));
        }
      }
      const Tensor parts = cat({a, b.narrow(1, 0, 1).expand({3, 90, n})}, 2);
      EXPECT_TRUE(bytes_of(parts.narrow(2, 0, n).clone()) == bytes_of(a)) << n;
    }
  }
}

TEST(Copies, RepeatOnceOnly) {
  const Tensor x = arange(6).reshape({2, 3}), y = x.repeat({2, 2});
  EXPECT_EQ(y.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5,
                                       0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  x.repeat({1, 1}).fill_(7);
  x.repeat({1, 1, 1}).fill_(7);
  EXPECT_EQ(x.sum().item<std::int64_t>(), 15);
}

/// Columns of n numbers each to tables.
void expect_tables(Source& source, std::int64_t n, DType dtype) {
  const Tensor values = (source.values({5, n}) * 9).to(dtype);
  for (const int count : {1, 2, 3, 4, 5}) {
    Tensors columns;
    for (int i = 0; i < count; ++i) columns.push_back(values[i].clone());
    const Tensor expected = values.narrow(0, 0, count).t().contiguous();
    EXPECT_TRUE(bytes_of(stack(columns, 1)) == bytes_of(expected)) << n << " by " << count;
    for (Tensor& column : columns) column = unsqueeze(column, 1);
    columns[0] = values.t().narrow(1, 0, 1);  // not as dense as the others
    EXPECT_TRUE(bytes_of(cat(columns, 1)) == bytes_of(expected)) << n << " by " << count;
  }
}

// Two to four go through registers; 35 MB past the caches.
TEST(Copies, OfColumnsToTables) {
  Source source(4);
  for (const std::int64_t n : {0, 1, 5, 255, 256, 257, 70'001}) {
    for (const DType dtype : {kUInt8, kFloat16, kFloat32, kInt64}) expect_tables(source, n, dtype);
  }
  expect_tables(source, 2'200'001, kFloat32);
}

TEST(Nonzero, FindsPlacesInParts) {
  Source source(5);
  const auto check = [](const Tensor& mask) {
    const Tensor places = nonzero(mask);
    const std::vector<double> hits = mask.to_vector<double>();
    const auto found = places.to_vector<std::int64_t>();
    std::size_t at = 0;
    for (std::int64_t i = 0; i < mask.numel(); ++i) {
      if (hits[i] == 0) continue;
      std::int64_t place = 0;
      for (int d = 0; d < mask.dim(); ++d) place = place * mask.size(d) + found.at(at++);
      ASSERT_EQ(place, i);
    }
    EXPECT_EQ(at, found.size());
    EXPECT_EQ(places.size(1), mask.dim());
  };
  for (const double least : {-9.0, 0.0, 2.0, 9.0}) {
    check(source.values({200'003}) > least);
    check(source.values({300, 701}) > least);
    check(source.values({70, 3, 997}) > least);
    check(source.values({5, 0}) > least);
  }
}

}  // namespace
}  // namespace facula
