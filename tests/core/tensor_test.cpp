#include <facula/tensor.h>

#include <sstream>

#include <facula/autograd.h>
#include <facula/memory.h>

#include <cmath>
#include <type_traits>

#include "tests/support/expect.h"

namespace facula {
namespace {

using Sizes = std::vector<std::int64_t>;

// --- Metadata and layout -------------------------------------------------------------------------

TEST(Tensor, UndefinedHandles) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE(none.requires_grad());
  EXPECT_ERROR(ValueError, "undefined", none.sizes());
  EXPECT_ERROR(ValueError, "undefined", none + ones({1}));
}

TEST(Tensor, SizesAndStrides) {
  const Tensor x = empty({2, 3, 4});
  EXPECT_EQ(x.dim(), 3);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.sizes().vec(), (Sizes{2, 3, 4}));
  EXPECT_EQ(x.strides().vec(), (Sizes{12, 4, 1}));
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_EQ(x.stride(-3), 12);
  EXPECT_EQ(x.nbytes(), 96);
  EXPECT_ERROR(IndexError, "dimension 3 is out of range", x.size(3));
  EXPECT_ERROR(IndexError, "0-d", tensor(1).size(0));
}

template <class X>
concept SumsAlongAFlag = requires(const X& x) {
  x.sum(true);
};
template <class X>
concept SumsAlongADimension = requires(const X& x) {
  x.sum(1, true);
};
template <class X>
concept VariesAlongAFlag = requires(const X& x) {
  x.var(false);
};
static_assert(!SumsAlongAFlag<Tensor> && SumsAlongADimension<Tensor>);
static_assert(!VariesAlongAFlag<Tensor>);
static_assert(!std::is_constructible_v<IntList, bool> && std::is_constructible_v<IntList, int>);
static_assert(!std::is_constructible_v<Index, bool> && std::is_constructible_v<Index, int>);

TEST(Tensor, ImpossibleSizes) {
  EXPECT_ERROR(ShapeError, "negative", empty({2, -1}));
  EXPECT_ERROR(ShapeError, "2^63", empty({1ll << 40, 1ll << 40}));
  EXPECT_ERROR(ShapeError, "", empty({1ll << 62}));
  EXPECT_ERROR(ShapeError, "8", empty({1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_ERROR(OutOfMemory, "", empty({1ll << 50}));
}

TEST(Tensor, ChannelsLast) {
  const Tensor x = empty({2, 3, 4, 5}, {}, kChannelsLast);
  EXPECT_EQ(x.sizes().vec(), (Sizes{2, 3, 4, 5}));
  EXPECT_EQ(x.strides().vec(), (Sizes{60, 1, 15, 3}));
  EXPECT_TRUE(x.is_contiguous(kChannelsLast));
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_TRUE(x.is_contiguous(kPreserve));
  EXPECT_EQ(x.suggest_memory_format(), kChannelsLast);
  EXPECT_EQ(empty_like(x).strides().vec(), x.strides().vec());
  EXPECT_TRUE((x + 1).is_contiguous(kChannelsLast)) << "elementwise ops keep the layout";

  const Tensor y = rand({2, 3, 4, 5});
  expect_equal(y.contiguous(kChannelsLast), y);
  expect_equal(y.to(kChannelsLast).contiguous(), y);
  EXPECT_TRUE(y.contiguous().is_same(y));
  EXPECT_ERROR(ShapeError, "needs 4 dimensions", empty({2, 3}).to(kChannelsLast));
}

TEST(Tensor, CopiesOfPartsKeepTheOrderOfDimensions) {
  const Tensor part = randn({2, 3, 4, 5}).to(kChannelsLast).narrow(1, 0, 2);
  for (const Tensor& copy : {part.clone(), part.to(kFloat64), empty_like(part), zeros_like(part)}) {
    EXPECT_TRUE(copy.is_contiguous(kChannelsLast)) << copy.strides().str();
  }
  expect_equal(part.clone(), part.contiguous());
  EXPECT_EQ(ones({3, 1}).expand({3, 4}).clone().strides(), IntList({4, 1}));
  EXPECT_ERROR(ShapeError, "empty: channels_last needs 4 dimensions, got size [2, 3]",
               empty({2, 3}, {}, kChannelsLast));
  EXPECT_ERROR(ShapeError, "empty_like: channels_last needs 4 dimensions",
               empty_like(zeros({2, 3}), kChannelsLast));
}

TEST(Tensor, LayoutOfTrivialDimensionsDoesNotMatter) {
  const Tensor x = empty({2, 1, 4, 4});
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_TRUE(x.is_contiguous(kChannelsLast));
  EXPECT_EQ(x.suggest_memory_format(), kContiguous);
}

TEST(Tensor, EmptyAndZeroDimensional) {
  const Tensor none = empty({0, 3}), scalar = tensor(2.5);
  EXPECT_EQ(none.numel(), 0);
  EXPECT_TRUE(none.is_contiguous());
  EXPECT_EQ((none + 1).sizes().vec(), (Sizes{0, 3}));
  EXPECT_EQ(none.sum().item<float>(), 0);
  EXPECT_EQ((none + ones({1, 3})).sizes().vec(), (Sizes{0, 3}));
  EXPECT_ERROR(ShapeError, "broadcast", none + ones({2, 3}));
  EXPECT_EQ(none.permute({1, 0}).sizes().vec(), (Sizes{3, 0}));
  EXPECT_TRUE(none.to_vector<float>().empty());
  EXPECT_EQ(scalar.dim(), 0);
  EXPECT_EQ((scalar * scalar).item<double>(), 6.25);
  EXPECT_EQ((scalar + ones({2})).sizes().vec(), (Sizes{2}));
  none.fill_(3);
  none.copy_(none);
}

// --- Views ---------------------------------------------------------------------------------------

TEST(Views, ShareElementsAndVersion) {
  const Tensor x = arange(6);
  const Tensor v = x.view({2, 3}), p = v.permute({1, 0}), row = v[1];
  EXPECT_TRUE(v.is_view());
  EXPECT_FALSE(x.is_view());
  EXPECT_EQ(p.strides().vec(), (Sizes{1, 3}));
  EXPECT_EQ(row.storage_offset(), 3);
  const std::uint32_t before = x.version();
  row.fill_(7);
  EXPECT_EQ(x.version(), before + 1);
  EXPECT_EQ(p.version(), before + 1);
  expect_values(x, {0, 1, 2, 7, 7, 7});
  expect_values(p, {0, 7, 1, 7, 2, 7});
  x.add_(1);
  EXPECT_EQ(p.version(), before + 2);
}

TEST(Views, TakeTheLayoutThatLayersChoose) {
  const Tensor x = randn({2, 3, 8, 8}), images = x.to(kChannelsLast);
  const std::int64_t copies = cpu::view_copies();
  const Tensor flat = images.requires_grad_().view({2, -1});
  EXPECT_EQ(cpu::view_copies(), copies + 1);
  EXPECT_TRUE(flat.equal(x.view({2, -1})));
  EXPECT_EQ(cpu::view_copies(), copies + 1);
  (flat * arange(192).view({1, 192})).sum().backward();
  EXPECT_TRUE(
      images.grad().equal(arange(192).view({1, 3, 8, 8}).expand({2, 3, 8, 8}).to(kFloat32)));
  EXPECT_ERROR(ShapeError, "view: size [3, 128] is no view",
               x.permute({0, 2, 1, 3}).view({3, 128}));
}

TEST(Views, KeepTheStorageAlive) {
  Tensor v;
  {
    const Tensor x = arange(4);
    v = x[3];
  }
  EXPECT_EQ(v.item<int>(), 3);
}

TEST(InPlaceOps, ReadAnElementOfTheWrittenTensorBeforeItChanges) {
  for (const std::int64_t n : {4, 40'000}) {  // the direct loop, and the one on all threads
    Tensor x = ones({n}) * 3;
    x.mul_(x[0]);
    EXPECT_EQ(x[0].item(), 9);
    EXPECT_EQ(x[1].item(), 9);
    EXPECT_EQ(x[n - 1].item(), 9);
  }
}

TEST(Views, BasicIndexing) {
  const Tensor x = arange(24).view({2, 3, 4});
  expect_values(x[1][2], {20, 21, 22, 23});
  expect_values(x[-1][0], {12, 13, 14, 15});
  expect_values(x.index({0, Slice(0, 2), 1}), {1, 5});
  expect_values(x.index({Ellipsis, -1}), {3, 7, 11, 15, 19, 23});
  expect_values(x.index({1, Slice(std::nullopt, std::nullopt, 2), Slice(-2)}), {14, 15, 22, 23});
  expect_values(x.index({1, Slice(None, None, 2), Slice(-2, None)}), {14, 15, 22, 23});
  expect_values(x.index({std::size_t{1}, Slice(None, 1), Slice(None, 2)}), {12, 13});
  EXPECT_EQ(x.index({None, 0}).sizes().vec(), (Sizes{1, 3, 4}));
  EXPECT_EQ(x.index({Ellipsis, None}).sizes().vec(), (Sizes{2, 3, 4, 1}));
  EXPECT_EQ(x.index({Slice(5, 9)}).sizes().vec(), (Sizes{0, 3, 4}));
  x.index_put_({Slice(), 1}, tensor(-1));
  expect_values(x[1], {12, 13, 14, 15, -1, -1, -1, -1, 20, 21, 22, 23});
  EXPECT_ERROR(IndexError, "out of range", x[2]);
  EXPECT_ERROR(IndexError, "", x.index({0, 0, 0, 0}));
}

TEST(Views, NonContiguousArithmetic) {
  const Tensor x = arange(6).view({2, 3}).permute({1, 0});
  expect_values(x + x.contiguous(), {0, 6, 2, 8, 4, 10});
  expect_values(x.index({Slice(std::nullopt, std::nullopt, 2)}) * 10, {0, 30, 20, 50});
  expect_values(x.sum({0}), {3, 12});
}

TEST(Operators, CombineMasks) {
  const Tensor x = arange(5);
  const Tensor small = x < 3, odd = x.remainder(2) == 1;
  expect_values(small & odd, {0, 1, 0, 0, 0});
  expect_values(small | odd, {1, 1, 1, 1, 0});
  expect_values(small ^ odd, {1, 0, 1, 1, 0});
  expect_values(~small, {0, 0, 0, 1, 1});
  EXPECT_EQ((small & odd[0]).sizes().vec(), Sizes{5});
  EXPECT_ERROR(DTypeError, "operator&", x & small);
  EXPECT_ERROR(DTypeError, "logical_or", small | x);
  EXPECT_ERROR(DTypeError, "operator^", small ^ x);
  EXPECT_ERROR(DTypeError, "operator~: an operand is int64[5]", ~x);
}

// --- Writing -------------------------------------------------------------------------------------

TEST(Copy, BroadcastsAndConverts) {
  const Tensor x = zeros({2, 3}, kInt32);
  x.copy_(tensor({1.9, -2.9, 3}));
  expect_values(x, {1, -2, 3, 1, -2, 3});
  x.permute({1, 0}).copy_(tensor({1.0, 2, 3, 4, 5, 6}, {3, 2}));
  expect_values(x, {1, 3, 5, 2, 4, 6});
  EXPECT_ERROR(ShapeError, "broadcast", x.copy_(ones({2})));
  EXPECT_ERROR(ShapeError, "broadcast", ones({3}).copy_(ones({2, 3})));
}

TEST(Copy, FillsStridedParts) {
  const Tensor x = zeros({3, 3});
  x.index({Slice(), 1}).fill_(2);
  expect_values(x, {0, 2, 0, 0, 2, 0, 0, 2, 0});
  x.zero_();
  expect_values(x, {0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST(Copy, ConvertsBetweenAllTypes) {
  for (int from = 0; from < kDTypeCount; ++from) {
    for (int to = 0; to < kDTypeCount; ++to) {
      const Tensor x = tensor({0, 1, 1, 0, 1}, {-1}, static_cast<DType>(from));
      expect_values(x.to(static_cast<DType>(to)), {0, 1, 1, 0, 1});
    }
  }
  expect_values(tensor({0.5, -2, 0}).to(kBool), {1, 1, 0});
  expect_values(tensor({1.0009765625, 65504, 1e-8}).to(kFloat16), {1.0009765625, 65504, 0}, 0);
  expect_values(tensor({1.00390625, 3e38}).to(kBFloat16), {1, 2.99e38}, 2e36);
  EXPECT_TRUE(std::isinf(tensor({1e6}).to(kFloat16).item<double>()));
}

TEST(Copy, FloatingPointValuesBecomeIntegersByWayOfInt64) {
  for (const DType from : {kFloat32, kFloat64}) {
    // Blocks of values near 0, around the limits of int32, and beyond those of int64.
    Tensor x = zeros({450}, from);
    for (std::int64_t i = 0; i < 450; ++i) {
      const double limits[] = {0x1p31, -0x1p31, 0x1p31 - 129, 0x1p32 + 1024, 0x1p63, -0x1p63, NAN};
      const double wild = i < 200 || i > 350 || i % 9 > 6 ? 0 : limits[i % 9];
      x[i].fill_(static_cast<double>(i * 7 % 1000) - 500.75 + wild);
    }
    const Tensor apart = stack({x, x}, 1).select(1, 0);  // whose elements go one by one
    for (const DType to : {kUInt8, kInt8, kInt16, kInt32, kInt64}) {
      const Tensor one = x.to(to), other = apart.to(to);
      EXPECT_TRUE(one.to(kInt64).equal(other.to(kInt64))) << name_of(from) << name_of(to);
      EXPECT_EQ(one[3].item<std::int64_t>(), to == kUInt8 || to == kInt8 ? -479 + 512 : -479);
      EXPECT_EQ(x[202].item<double>(), 0x1p63);
      EXPECT_EQ(one[202].item<std::int64_t>(), to == kInt64 ? INT64_MIN : 0);
    }
  }
}

TEST(Copy, ToReturnsTheSameTensorWherePossible) {
  const Tensor x = ones({2});
  EXPECT_TRUE(x.to(kFloat32).is_same(x));
  EXPECT_FALSE(x.to(kFloat32, false, true).is_same(x));
  EXPECT_TRUE(x.cpu().is_same(x));
  EXPECT_ERROR(DeviceError, "cuda", x.cuda());
}

// --- Elements ------------------------------------------------------------------------------------

TEST(Elements, ItemAndPointers) {
  EXPECT_EQ(tensor(2.5).item<float>(), 2.5f);
  EXPECT_EQ(tensor({7.0}).item<int>(), 7);
  EXPECT_EQ(tensor(1.5).to(kBFloat16).item(), 1.5);
  EXPECT_TRUE(tensor(true).item<bool>());
  EXPECT_ERROR(ShapeError, "[2]", ones({2}).item());
  EXPECT_ERROR(ShapeError, "0 elements", empty({0}).item());
  const Tensor x = ones({2});
  x.data_ptr<float>()[1] = 5;
  expect_values(x, {1, 5});
  EXPECT_ERROR(DTypeError, "float64 elements of a float32", x.data_ptr<double>());
  EXPECT_ERROR(DeviceError, "null", empty({2}, kNull).raw_data());
}

TEST(Elements, FromBlob) {
  float values[] = {1, 2, 3, 4};
  int deleted = 0;
  {
    Tensor view;
    {
      const Tensor x = from_blob(
          values, {2, 2}, kFloat32, [](void* count) { ++*static_cast<int*>(count); }, &deleted);
      EXPECT_EQ(x.raw_data(), values);
      x.mul_(2);
      view = x[1];
    }
    EXPECT_EQ(deleted, 0);
    expect_values(view, {6, 8});
  }
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(values[3], 8);
  EXPECT_ERROR(ValueError, "null data", from_blob(nullptr, {1}, kFloat32));
  EXPECT_EQ(from_blob(nullptr, {0}, kFloat32).numel(), 0);
}

TEST(Elements, Printing) {
  std::ostringstream stream;
  stream << tensor({1, 2.5, -3}, {3}, kFloat32);
  EXPECT_NE(stream.str().find("2.5"), std::string::npos) << stream.str();
  EXPECT_NE(Tensor().str().find("ndefined"), std::string::npos) << Tensor().str();
  EXPECT_FALSE(empty({0, 2}).str().empty());
  EXPECT_FALSE(empty({2}, kNull).str().empty());
  EXPECT_LT(zeros({1000, 1000}).str().size(), 10000u) << "large tensors are summarised";
}

TEST(Elements, Creation) {
  expect_values(arange(1, 7, 2), {1, 3, 5});
  expect_values(arange(0, 1, 0.25), {0, 0.25, 0.5, 0.75});
  expect_values(arange(3, 0, -1), {3, 2, 1});
  expect_values(linspace(0, 1, 3), {0, 0.5, 1});
  expect_values(eye(2), {1, 0, 0, 1});
  expect_values(full({2}, 7), {7, 7});
  EXPECT_EQ(full({2}, 7).dtype(), kInt64);
  EXPECT_TRUE(zeros({1}, {kFloat32, kCPU, true}).requires_grad());
  EXPECT_ERROR(ValueError, "step is 0", arange(0, 1, 0));
  EXPECT_ERROR(ShapeError, "3 values do not fill", tensor({1, 2, 3}, {2, 2}));
}

// --- Reuse of dead operands ----------------------------------------------------------------------

TEST(Reuse, OfDeadTemporaries) {
  const Tensor x = rand({1000});
  Tensor y = x + 1;
  const void* memory = y.raw_data();
  y = std::move(y) * x;
  EXPECT_EQ(y.raw_data(), memory);
  expect_equal(y, (x + 1) * x);
}

TEST(Reuse, BesideNumbersAndScalarTensors) {
  const Tensor x = rand({10, 100});
  for (const Tensor& start : {x, x.t(), rand({2, 3, 4, 5}).contiguous(kChannelsLast)}) {
    Tensor y = start + 1;
    const void* memory = y.raw_data();
    y = std::move(y) * 2;
    y = 3 - std::move(y);
    y = std::move(y).mul(tensor(0.5));
    y = std::move(y).add(2);
    EXPECT_EQ(y.raw_data(), memory);
    expect_equal(y, (3 - (start + 1) * 2) * 0.5 + 2);
  }
  Tensor number = tensor(2.0) * 1;
  EXPECT_EQ((std::move(number) * x).sizes(), x.sizes()) << "a 0-d operand cannot hold the result";
  Tensor integers = tensor({1, 2}, {2}).to(kInt64);
  EXPECT_EQ((std::move(integers) * 0.5).dtype(), kFloat32);
}

TEST(Reuse, WhileRecording) {
  const Tensor x = rand({100}).requires_grad_(), w = rand({100});
  Tensor y = x * w;
  const void* memory = y.raw_data();
  y = tanh(std::move(y) * 2 + w);
  EXPECT_EQ(y.raw_data(), memory);
  y = std::move(y) * w;  // w needs no gradient, but tanh keeps its output
  EXPECT_NE(y.raw_data(), memory);
  y.sum().backward();
  const Tensor t = tanh(x.detach() * w * 2 + w);
  EXPECT_LT((x.grad() - (1 - t * t) * w * w * 2).abs().amax().item<float>(), 1e-5f);

  Tensor squared = x * 1;
  squared = mul(std::move(squared), squared);  // both operands are needed and are one handle
  x.set_grad(Tensor());
  squared.sum().backward();
  EXPECT_LT((x.grad() - x.detach() * 2).abs().amax().item<float>(), 1e-5f);
}

TEST(Reuse, WithoutRecordingEndsTheHistory) {
  const Tensor x = rand({100}).requires_grad_();
  Tensor y = x + 1;
  const NoGradGuard no_grad;
  y = std::move(y) * 2;
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.is_leaf());
}

TEST(Reuse, NeverOfWhatSomebodySees) {
  const Tensor x = ones({1000});
  Tensor y = x + 1;
  const Tensor view = y.view({10, 100});
  Tensor z = std::move(y) * 3;
  EXPECT_NE(z.raw_data(), view.raw_data());
  EXPECT_EQ(view.sum().item<float>(), 2000);

  float values[2] = {1, 2};
  Tensor blob = from_blob(values, {2}, kFloat32);
  EXPECT_EQ((std::move(blob) * 2).sum().item<float>(), 6);
  blob = from_blob(values, {2}, kFloat32);
  EXPECT_EQ((std::move(blob) * ones({2})).sum().item<float>(), 3);
  EXPECT_EQ(values[0], 1) << "the caller's memory is the caller's";
}

TEST(Reuse, NeverOfWhatBackwardNeeds) {
  const Tensor x = full({100}, 2.0).requires_grad_();
  Tensor y = x * 1;
  const Tensor z = std::move(y) * x;  // needs y for the gradient of x
  z.sum().backward();
  EXPECT_EQ(x.grad().sum().item<float>(), 400);

  Tensor t = (x * 1).tanh();
  std::move(t).mul(2).sum().backward();  // tanh needs its output
  EXPECT_NEAR(x.grad().sum().item<float>() - 400, 100 * 2 * (1 - std::pow(std::tanh(2.0), 2)),
              1e-3);
}

// --- Devices -------------------------------------------------------------------------------------

TEST(NullDevice, HasShapesOnly) {
  const Tensor x = empty({1ll << 20, 1ll << 20}, kNull);
  EXPECT_EQ(x.numel(), 1ll << 40);
  EXPECT_EQ((x * x + 1).sum({1}).sizes().vec(), (Sizes{1ll << 20}));
  EXPECT_ERROR(DeviceError, "is on null, one of size [1048576] on cpu; move them to one device",
               x + ones({1ll << 20}));
  EXPECT_ERROR(DeviceError, "add_: an input of size [1048576] is on cpu, one of size [] on null",
               ones({1ll << 20}).add_(empty({}, kNull)));
  EXPECT_ERROR(DeviceError, "no elements", x.cpu());
}

TEST(NullDevice, MakesWhatNoMemoryHolds) {
  constexpr std::int64_t kMany = std::int64_t{1} << 45, kSide = 1 << 23;
  for (const Tensor& x :
       {arange(kMany, kNull), arange(0.5, kMany, 1, kNull), linspace(0, 1, kMany, kNull),
        rand({kMany}, kNull), randn({kMany}, kNull), randint(0, 2, {kMany}, kNull)}) {
    EXPECT_TRUE(x.device().is_null());
    EXPECT_EQ(x.sizes(), IntList({kMany}));
  }
  EXPECT_EQ(arange(3, kNull).dtype(), kInt64);
  EXPECT_EQ(eye(kSide, kNull).sizes(), IntList({kSide, kSide}));
  EXPECT_EQ(tril(empty({kSide, kSide}, kNull)).sizes(), IntList({kSide, kSide}));
}

TEST(Device, Names) {
  EXPECT_EQ(Device("cuda:1").str(), "cuda:1");
  EXPECT_EQ(Device("cpu"), kCPU);
  EXPECT_ERROR(DeviceError, "tpu", Device("tpu"));
  EXPECT_ERROR(DeviceError, "cuda:x", Device("cuda:x"));
  EXPECT_EQ(Device("cpu:0"), kCPU);
  EXPECT_EQ(Device("null:0"), kNull);
  EXPECT_ERROR(DeviceError, "\"cpu:1\" is no device", Device("cpu:1"));
  EXPECT_ERROR(DeviceError, "\"null:2\" is no device", Device("null:2"));
}

}  // namespace
}  // namespace facula
