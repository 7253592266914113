// Type promotion. The tables were printed by PyTorch 1.13 (torch.promote_types, tensor + tensor).
#include "tests/support/expect.h"

namespace facula {
namespace {

// Rows and columns in the order of DType.
constexpr DType kPromoted[kDTypeCount][kDTypeCount] = {
    {kFloat32, kFloat64, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32,
     kFloat32},
    {kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64,
     kFloat64},
    {kFloat32, kFloat64, kInt32, kInt64, kInt32, kInt32, kFloat16, kBFloat16, kInt32, kInt32},
    {kFloat32, kFloat64, kInt64, kInt64, kInt64, kInt64, kFloat16, kBFloat16, kInt64, kInt64},
    {kFloat32, kFloat64, kInt32, kInt64, kUInt8, kUInt8, kFloat16, kBFloat16, kInt16, kInt16},
    {kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool, kFloat16, kBFloat16, kInt8, kInt16},
    {kFloat32, kFloat64, kFloat16, kFloat16, kFloat16, kFloat16, kFloat16, kFloat32, kFloat16,
     kFloat16},
    {kFloat32, kFloat64, kBFloat16, kBFloat16, kBFloat16, kBFloat16, kFloat32, kBFloat16, kBFloat16,
     kBFloat16},
    {kFloat32, kFloat64, kInt32, kInt64, kInt16, kInt8, kFloat16, kBFloat16, kInt8, kInt16},
    {kFloat32, kFloat64, kInt32, kInt64, kInt16, kInt16, kFloat16, kBFloat16, kInt16, kInt16},
};

TEST(Promotion, OfTwoTypes) {
  for (int a = 0; a < kDTypeCount; ++a) {
    for (int b = 0; b < kDTypeCount; ++b) {
      EXPECT_EQ(promote_types(static_cast<DType>(a), static_cast<DType>(b)), kPromoted[a][b])
          << name_of(static_cast<DType>(a)) << ", " << name_of(static_cast<DType>(b));
    }
  }
}

/// What a tensor with dimensions becomes when a number or a 0-d tensor is added to it.
struct Mixed {
  DType tensor;
  DType with_true, with_int, with_float;
  DType with_uint8, with_int64, with_float32, with_float64;  ///< 0-d tensors
};
constexpr Mixed kMixed[] = {
    {kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32},
    {kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64},
    {kInt32, kInt32, kInt32, kFloat32, kInt32, kInt32, kFloat32, kFloat64},
    {kInt64, kInt64, kInt64, kFloat32, kInt64, kInt64, kFloat32, kFloat64},
    {kUInt8, kUInt8, kUInt8, kFloat32, kUInt8, kUInt8, kFloat32, kFloat64},
};

TEST(Promotion, WithNumbersAndScalars) {
  for (const Mixed& row : kMixed) {
    SCOPED_TRACE(name_of(row.tensor));
    const Tensor x = ones({2}, row.tensor);
    EXPECT_EQ((x + true).dtype(), row.with_true);
    EXPECT_EQ((x + 2).dtype(), row.with_int);
    EXPECT_EQ((x + 2.5).dtype(), row.with_float);
    EXPECT_EQ((2.5 + x).dtype(), row.with_float);
    EXPECT_EQ((x + ones({}, kUInt8)).dtype(), row.with_uint8);
    EXPECT_EQ((x + ones({}, kInt64)).dtype(), row.with_int64);
    EXPECT_EQ((x + ones({}, kFloat32)).dtype(), row.with_float32);
    EXPECT_EQ((ones({}, kFloat64) + x).dtype(), row.with_float64);
    expect_values(x + 2.5, {3.5, 3.5});
  }
}

TEST(Promotion, OfOpsThatNeedFloatingPoint) {
  for (const Mixed& row : kMixed) {
    const DType floating = is_floating_point(row.tensor) ? row.tensor : kFloat32;
    const Tensor x = ones({2}, row.tensor);
    EXPECT_EQ((x / 2).dtype(), floating);
    EXPECT_EQ(x.exp().dtype(), floating);
    EXPECT_EQ((x < 2).dtype(), kBool);
    EXPECT_EQ(x.sum().dtype(), is_floating_point(row.tensor) ? row.tensor : kInt64);
  }
}

TEST(Promotion, DefaultDtype) {
  EXPECT_EQ(ones({1}).dtype(), kFloat32);
  EXPECT_EQ(tensor(1.5).dtype(), kFloat32);
  EXPECT_EQ(tensor(1).dtype(), kInt64);
  EXPECT_EQ(tensor(true).dtype(), kBool);
  EXPECT_EQ(arange(3).dtype(), kInt64);
  EXPECT_EQ(arange(0, 3, 0.5).dtype(), kFloat32);
  set_default_dtype(kFloat64);
  EXPECT_EQ((ones({1}, kInt32) / 2).dtype(), kFloat64);
  EXPECT_EQ(ones({1}).dtype(), kFloat64);
  set_default_dtype(kFloat32);
  EXPECT_ERROR(DTypeError, "int64", set_default_dtype(kInt64));
}

}  // namespace
}  // namespace facula
