// What is computed before a sum takes place in the dtype of the result.
#include <facula/ops.h>

#include <gtest/gtest.h>

#include "tests/support/expect.h"

namespace facula {
namespace {

Tensor one(double value, DType dtype) { return tensor({value}, {1}, dtype); }

void expect_one(const Tensor& result, double value, DType dtype) {
  EXPECT_EQ(result.dtype(), dtype);
  expect_values(result, {value});
}

TEST(Alpha, ScalesInTheDtypeOfTheSum) {
  expect_one(add(one(-25, kInt64), one(64, kUInt8), -1), -89, kInt64);
  expect_one(sub(one(-25, kInt64), one(64, kUInt8), -1), 39, kInt64);
  expect_one(add(one(1.5, kFloat32), one(200, kUInt8), 2), 401.5, kFloat32);
  expect_one(add(one(1, kInt32), one(200, kUInt8), 300), 60001, kInt32);
  const Tensor tenths = add(one(0, kFloat64), one(3, kInt32), 0.1);
  EXPECT_EQ(tenths.dtype(), kFloat64);
  EXPECT_EQ(tenths.item<double>(), 3 * 0.1);
  expect_one(add(one(5, kInt32), one(1, kBool), 2), 7, kInt32);
}

TEST(Alpha, OfMasksSaysWhetherTheSecondCounts) {
  const Tensor a = tensor({0, 0, 1}, {3}, kBool), b = tensor({0, 1, 1}, {3}, kBool);
  for (const int alpha : {0, 1, 2}) {
    const Tensor result = add(a, b, alpha);
    EXPECT_EQ(result.dtype(), kBool);
    expect_values(result, {0, alpha == 0 ? 0.0 : 1.0, 1});
  }
}

TEST(Alpha, TensorsWithoutDimensionsDoNotWiden) {
  const Tensor number = tensor({3}, {1}, kInt64).reshape({});
  expect_one(add(one(4, kUInt8), number, 2), 10, kUInt8);
  expect_one(add(one(1.5, kFloat32), number.to(kFloat64), 2), 7.5, kFloat32);
  expect_one(add(number, one(100, kUInt8), 2), 203, kUInt8);
  expect_one(add(one(4, kInt32), number.to(kFloat32), 0.5), 5.5, kFloat32);
}

TEST(Alpha, InPlaceAsWell) {
  const Tensor x = one(-25, kInt64);
  x.add_(one(64, kUInt8), -1);
  expect_one(x, -89, kInt64);
  x.sub_(one(200, kUInt8), 2);
  expect_one(x, -489, kInt64);
  const Tensor y = one(1.5, kFloat32);
  y.add_(one(200, kUInt8), 2);
  expect_one(y, 401.5, kFloat32);
}

TEST(LogSigmoid, OfUnsignedIntegers) {
  expect_values(logsigmoid(tensor({1, 2, 3}, {3}, kUInt8)),
                {-0.31326169, -0.12692801, -0.04858735});
}

}  // namespace
}  // namespace facula
