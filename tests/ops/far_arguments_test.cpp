// Integers near 2^63 as bounds, sizes and counts: what they mean is computed without overflow, or
// an error names them.
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <facula/tensor.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "tests/support/expect.h"

namespace facula {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::lowest();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kHuge = std::int64_t{1} << 40;
constexpr std::nullopt_t kNone = std::nullopt;

TEST(FarArguments, SlicesEndWithTheirTensor) {
  const Tensor x = arange(10).to(kFloat32).requires_grad_();
  EXPECT_EQ(x.slice(0, kLowest, kHighest).numel(), 10);
  EXPECT_EQ(x.slice(0, kHighest).numel(), 0);
  EXPECT_EQ(x.slice(0, kLowest, kLowest).numel(), 0);
  EXPECT_EQ(x.slice(0, -1, kLowest).numel(), 0);
  expect_values(x.slice(0, 3, kHighest, kHighest), {3});
  const Tensor column = arange(40).reshape({10, 4}).slice(0, 0, kNone, std::int64_t{1} << 62);
  EXPECT_EQ(column.sizes(), IntList({1, 4}));
  EXPECT_EQ(column.strides(), IntList({4, 1}));
  x.slice(0, 8, kNone, kHighest).sum().backward();
  expect_values(x.grad(), {0, 0, 0, 0, 0, 0, 0, 0, 1, 0});
  EXPECT_ERROR(IndexError, "out of range", x.select(0, kLowest));
  EXPECT_ERROR(IndexError, "out of range", x.select(0, kHighest));
}

TEST(FarArguments, DiagonalsMayLieOutside) {
  for (const std::int64_t offset : {kLowest, kHighest}) {
    EXPECT_EQ(diagonal(ones({2, 3}), offset).sizes(), IntList({0}));
    expect_values(diagonal_backward(empty({0}), {2, 3}, offset, 0, 1), {0, 0, 0, 0, 0, 0});
  }
}

TEST(FarArguments, SizesOfGradientsAreChecked) {
  const Tensor grad = ones({3});
  EXPECT_ERROR(ShapeError, "the slice [1]", slice_backward(grad, {kHuge}, 0, -1, kNone, 1));
  EXPECT_ERROR(ShapeError, "the slice [2]", slice_backward(grad, {kHuge}, 0, 0, kNone, kHuge / 2));
  EXPECT_ERROR(ShapeError, "negative", slice_backward(grad, {-5}, 0, kNone, kNone, 1));
  EXPECT_ERROR(ShapeError, "negative", slice_backward(grad, {kLowest}, 0, -1, kNone, 1));
  EXPECT_ERROR(ShapeError, "the entry []", select_backward(grad, {kHuge}, 0, -1));
  EXPECT_ERROR(ShapeError, "negative", select_backward(grad, {kLowest}, 0, 0));
  EXPECT_ERROR(ShapeError, "the diagonal [1]",
               diagonal_backward(grad, {1, kHuge}, kHuge - 1, 0, 1));
  EXPECT_ERROR(ShapeError, "2^63", diagonal_backward(grad, {kHuge, kHuge}, 0, 0, 1));
}

// Their strides and the offsets of their parts must not overflow either.
TEST(FarArguments, SizesWithoutElementsHaveAProductToo) {
  EXPECT_ERROR(ShapeError, "2^63", empty({0, kHuge, kHuge}));
  EXPECT_ERROR(ShapeError, "2^63", empty({kHuge, kHuge, 0}));
  EXPECT_ERROR(ShapeError, "2^63", empty({0}).reshape({0, kHuge, kHuge}));
  const Tensor x = empty({0, kHuge});
  EXPECT_EQ(x.permute({1, 0}).clone().sizes(), IntList({kHuge, 0}));
  EXPECT_EQ(x.slice(1, -1).sizes(), IntList({0, 1}));
  EXPECT_EQ(x.select(1, -1).sizes(), IntList({0}));
}

TEST(FarArguments, GroupsOfConvolutions) {
  const std::int64_t groups = std::int64_t{1} << 62;
  EXPECT_ERROR(ShapeError, "groups 4611686018427387904",
               conv2d(ones({1, 4, 5, 5}), ones({4, 2, 3, 3}), {}, {1}, {0}, {1}, groups));
  // 4 times 2^62 is 0, if cut to 64 bits.
  EXPECT_ERROR(ShapeError, "groups 4611686018427387904",
               conv2d(empty({1, 0, 5, 5}), empty({0, 4, 3, 3}), {}, {1}, {0}, {1}, groups));
  EXPECT_ERROR(ShapeError, "groups 4611686018427387904",
               conv2d_backward_input(empty({1, 0, 3, 3}), empty({0, 4, 3, 3}), {1, 0, 5, 5}, {1},
                                     {0}, {1}, groups));
  EXPECT_ERROR(
      ShapeError, "groups 4611686018427387904",
      conv2d_backward_weight(ones({2, 4, 3, 3}), ones({2, 3, 5, 5}), {3}, {1}, {0}, {1}, groups));
}

TEST(FarArguments, ImagesOfPooling) {
  const Tensor line = ones({1, 1, 1, 1}).expand({1, 1, kHighest, 1});
  EXPECT_ERROR(ShapeError, "too large", max_pool2d(line, {2, 1}, {1, 1}, {1, 0}));
  EXPECT_ERROR(ShapeError, "too large", avg_pool2d(line, {2, 1}, {4, 1}, {0}, true));
  const Tensor grad = ones({2, 3, 3, 3});
  for (const std::int64_t size : {std::int64_t{-6}, kLowest}) {
    EXPECT_ERROR(ShapeError, "negative", avg_pool2d_backward(grad, {size, 6}, {2}, {}, {0}, true));
  }
  EXPECT_ERROR(ShapeError, "2^63", avg_pool2d_backward(grad, {kHighest, 6}, {2}, {}, {0}, true));
  // Without images there is nothing to allocate.
  const std::int64_t far = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(uneven_avg_pool2d_backward(ones({0, 1, 3, 3}), {far, 2}).sizes(),
            IntList({0, 1, far, 2}));
}

TEST(FarArguments, ListsHaveAtMostEightEntries) {
  const Tensor x = ones({2, 2, 2, 2, 2});
  EXPECT_ERROR(ShapeError, "a shape, or an op's list of integers, with more than 8 entries",
               constant_pad(x, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0));
}

}  // namespace
}  // namespace facula
