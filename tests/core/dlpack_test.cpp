#include <facula/dlpack.h>

#include <dlpack/dlpack.h>

#include <array>
#include <atomic>
#include <thread>

#include <facula/autograd.h>
#include <facula/generator.h>
#include <facula/memory.h>

#include "runtime/deferred.h"
#include "tests/support/expect.h"

namespace facula {
namespace {

/// Gives a handle back as a library does that is done with it.
void end(DLManagedTensor* handle) { handle->deleter(handle); }

/// An array of another library.
struct Foreign {
  Foreign(void* data, std::vector<std::int64_t> sizes, DLDataType dtype = {kDLFloat, 32, 1})
      : shape(std::move(sizes)) {
    handle.dl_tensor = {.data = data,
                        .device = {kDLCPU, 0},
                        .ndim = static_cast<int>(shape.size()),
                        .dtype = dtype,
                        .shape = shape.data(),
                        .strides = nullptr,
                        .byte_offset = 0};
    handle.manager_ctx = this;
    handle.deleter = [](DLManagedTensor* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->deleted;
    };
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  Foreign& with_strides(std::vector<std::int64_t> list) {
    strides = std::move(list);
    handle.dl_tensor.strides = strides.data();
    return *this;
  }

  DLManagedTensor handle;
  std::vector<std::int64_t> shape, strides;
  std::atomic<int> deleted = 0;
};

// --- Export, and back ----------------------------------------------------------------------------

TEST(DLPack, EveryDType) {
  struct Case {
    DType dtype;
    int code, bits;
  };
  for (const auto& [dtype, code, bits] :
       {Case{kFloat16, kDLFloat, 16}, Case{kFloat32, kDLFloat, 32}, Case{kFloat64, kDLFloat, 64},
        Case{kBFloat16, kDLBfloat, 16}, Case{kInt8, kDLInt, 8}, Case{kInt16, kDLInt, 16},
        Case{kInt32, kDLInt, 32}, Case{kInt64, kDLInt, 64}, Case{kUInt8, kDLUInt, 8},
        Case{kBool, kDLUInt, 8}}) {
    SCOPED_TRACE(name_of(dtype));
    const Tensor x = arange(6).view({2, 3}).to(dtype);
    DLManagedTensor* handle = to_dlpack(x);
    const DLTensor& given = handle->dl_tensor;
    EXPECT_EQ(given.dtype.code, code);
    EXPECT_EQ(given.dtype.bits, bits);
    EXPECT_EQ(given.dtype.lanes, 1);
    EXPECT_EQ(given.device.device_type, kDLCPU);
    EXPECT_EQ(given.device.device_id, 0);
    const Tensor y = from_dlpack(handle);
    EXPECT_EQ(y.dtype(), dtype == kBool ? kUInt8 : dtype);
    EXPECT_EQ(y.raw_data(), x.raw_data());
    EXPECT_EQ(y.sizes(), IntList({2, 3}));
    expect_values(y, x.to_vector<double>());
  }
}

TEST(DLPack, BooleansOfNewerLibraries) {
  const Tensor x = tensor(std::vector<bool>{true, false, true});
  DLManagedTensor* handle = to_dlpack(x);
  handle->dl_tensor.dtype.code = 6;  // kDLBool since DLPack 0.8
  const Tensor y = from_dlpack(handle);
  EXPECT_EQ(y.dtype(), kBool);
  EXPECT_EQ(y.raw_data(), x.raw_data());
  expect_equal(x, y);
}

TEST(DLPack, EveryLayout) {
  const Tensor x = arange(120).view({2, 3, 4, 5});
  const Tensor images = randn({2, 3, 4, 5}).to(kChannelsLast);
  const std::vector<Tensor> layouts = {
      x,
      x[1],
      x[1][2][3],
      x[1][2][3][4],  // 0-d, with an offset
      x.index({Slice(None), Slice(1, 3), Slice(1, None, 2), 2}),
      x.permute({3, 1, 0, 2}),
      x.narrow(1, 2, 1).expand({2, 6, 4, 5}),
      tensor(2.5),
      images,
      images.narrow(1, 1, 2),
      randn({1, 3, 4, 5}).to(kChannelsLast),
      randn({2, 1, 4, 5}).to(kChannelsLast),
      x.view({2, 1, 3, 1, 4, 1, 5, 1}),
  };
  for (const Tensor& tensor : layouts) {
    SCOPED_TRACE(tensor.sizes().str() + ", strides " + tensor.strides().str());
    DLManagedTensor* handle = to_dlpack(tensor);
    const DLTensor& given = handle->dl_tensor;
    EXPECT_EQ(given.data, tensor.raw_data());
    EXPECT_EQ(given.byte_offset, 0u);
    ASSERT_EQ(given.ndim, tensor.dim());
    const auto rank = static_cast<std::size_t>(given.ndim);
    EXPECT_EQ(IntList(given.shape, rank), tensor.sizes());
    EXPECT_EQ(IntList(given.strides, rank), tensor.strides());
    const Tensor back = from_dlpack(handle);
    EXPECT_EQ(back.strides(), tensor.strides());
    EXPECT_EQ(back.suggest_memory_format(), tensor.suggest_memory_format());
    EXPECT_EQ(back.is_contiguous(), tensor.is_contiguous());
    EXPECT_FALSE(back.is_view());
    expect_equal(back, tensor);
  }
}

TEST(DLPack, WithoutElements) {
  for (const Tensor& tensor : {empty({0}), empty({2, 0, 3}), ones({4, 3}).narrow(0, 4, 0)}) {
    DLManagedTensor* handle = to_dlpack(tensor);
    EXPECT_EQ(handle->dl_tensor.data, nullptr);
    EXPECT_EQ(handle->dl_tensor.byte_offset, 0u);
    const Tensor back = from_dlpack(handle);
    EXPECT_EQ(back.sizes(), tensor.sizes());
    EXPECT_TRUE(back.is_contiguous());
    EXPECT_EQ((back * 2 + 1).numel(), 0);
    EXPECT_EQ(back.sum().item(), 0);
    back.fill_(3);
    back.copy_(tensor);
    EXPECT_EQ(from_dlpack(to_dlpack(back)).sizes(), tensor.sizes());
  }
}

TEST(DLPack, WritesAreSeenOnBothSides) {
  const Tensor x = zeros({2, 3});
  DLManagedTensor* handle = to_dlpack(x[1]);
  static_cast<float*>(handle->dl_tensor.data)[2] = 7;
  expect_values(x, {0, 0, 0, 0, 0, 7});
  x.add_(1);
  EXPECT_EQ(static_cast<float*>(handle->dl_tensor.data)[2], 8);
  const Tensor row = from_dlpack(handle);
  row.mul_(2);
  expect_values(x, {1, 1, 1, 2, 2, 16});
  row.index_put_({0}, tensor(5.0));
  expect_values(x, {1, 1, 1, 5, 2, 16});

  const Tensor repeated = from_dlpack(to_dlpack(ones({1, 3}).expand({2, 3})));
  EXPECT_ERROR(ShapeError, "share one memory place", repeated.add_(1));
}

TEST(DLPack, ExportsKeepTheMemory) {
  for (const std::int64_t numel : {10, 1 << 20}) {
    const std::int64_t before = cpu::memory_allocated();
    Tensor x = full({numel}, 3.0);
    const auto bytes = cpu::memory_allocated() - before;
    DLManagedTensor* whole = to_dlpack(x);
    DLManagedTensor* part = to_dlpack(x.narrow(0, 5, 5));
    x = {};
    EXPECT_GE(cpu::memory_allocated() - before, numel * 4);
    EXPECT_LE(cpu::memory_allocated() - before, bytes);
    end(whole);
    EXPECT_GE(cpu::memory_allocated() - before, numel * 4);
    EXPECT_EQ(static_cast<float*>(part->dl_tensor.data)[4], 3);
    const Tensor back = from_dlpack(part)[4];
    EXPECT_GE(cpu::memory_allocated() - before, numel * 4);
    EXPECT_EQ(back.item(), 3);
  }
  const std::int64_t before = cpu::memory_allocated();
  end(to_dlpack(ones({1 << 20})));
  EXPECT_EQ(cpu::memory_allocated(), before);
}

TEST(DLPack, ExportedMemoryIsNotReused) {
  Tensor x = ones({100});
  DLManagedTensor* handle = to_dlpack(x);
  const Tensor y = std::move(x) * 2;
  EXPECT_NE(y.raw_data(), handle->dl_tensor.data);
  expect_values(from_dlpack(handle), std::vector<double>(100, 1));

  std::vector<float> values(100, 1);
  Foreign foreign(values.data(), {100});
  Tensor imported = from_dlpack(&foreign.handle);
  EXPECT_NE((std::move(imported) * 2).raw_data(), values.data());
  EXPECT_EQ(values[0], 1);
}

TEST(DLPack, RefusedExports) {
  const Tensor x = ones({2, 3}).requires_grad_();
  EXPECT_ERROR(ValueError, "to_dlpack: the tensor is undefined", to_dlpack(Tensor()));
  EXPECT_ERROR(DeviceError, "to_dlpack: a tensor on the null device", to_dlpack(ones({2}, kNull)));
  EXPECT_ERROR(DeviceError, "to_dlpack: a tensor on the null device", to_dlpack(empty({0}, kNull)));
  EXPECT_ERROR(AutogradError, "to_dlpack: the tensor of size [2, 3] requires grad", to_dlpack(x));
  EXPECT_ERROR(AutogradError, "export detach()", to_dlpack(x * 2));
  EXPECT_ERROR(AutogradError, "requires grad", to_dlpack(x[0]));
  const NoGradGuard no_grad;
  EXPECT_ERROR(AutogradError, "requires grad", to_dlpack(x));
  end(to_dlpack(x * 2));
  const Tensor shared = from_dlpack(to_dlpack(x.detach()));
  EXPECT_EQ(shared.raw_data(), x.raw_data());
  EXPECT_FALSE(shared.requires_grad());
}

TEST(DLPack, InferenceTensors) {
  const InferenceMode inference;
  expect_values(from_dlpack(to_dlpack(ones({2}) + 1)), {2, 2});
}

TEST(DLPack, DeferredResultsAreComputed) {
  manual_seed(1);
  const Tensor x = randn({256, 64}), w = randn({256, 64});
  const Tensor expected = linear(x, w);
  const runtime::DeferralScope scope;
  const Tensor y = linear(x, w);
  ASSERT_TRUE(runtime::deferral(y));
  DLManagedTensor* part = to_dlpack(y[3]);
  EXPECT_FALSE(runtime::deferral(y));
  expect_equal(from_dlpack(part), expected[3]);

  // What waits for the elements gets those of before a write through the handle.
  const Tensor waiting = linear(x, w);
  ASSERT_TRUE(runtime::deferral(waiting));
  DLManagedTensor* handle = to_dlpack(x);
  static_cast<float*>(handle->dl_tensor.data)[0] = 1e6f;
  end(handle);
  expect_equal(waiting, expected);
}

// --- Import --------------------------------------------------------------------------------------

TEST(DLPack, ForeignArrays) {
  std::array<float, 12> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  Foreign row_major(values.data(), {3, 4});
  Foreign strided(values.data(), {2, 3});
  strided.with_strides({1, 4}).handle.dl_tensor.byte_offset = 4;
  {
    const Tensor x = from_dlpack(&row_major.handle), y = from_dlpack(&strided.handle);
    EXPECT_EQ(x.strides(), IntList({4, 1}));
    EXPECT_EQ(x.raw_data(), values.data());
    expect_values(x, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    EXPECT_EQ(y.raw_data(), values.data() + 1);
    EXPECT_EQ(y.storage_offset(), 0);
    expect_values(y, {1, 5, 9, 2, 6, 10});
    y.neg_();
    values[11] = 100;
    expect_values(x, {0, -1, -2, 3, 4, -5, -6, 7, 8, -9, -10, 100});
  }
  EXPECT_EQ(row_major.deleted, 1);
  EXPECT_EQ(strided.deleted, 1);

  Foreign scalar(&values[11], {});
  scalar.handle.dl_tensor.shape = nullptr;
  EXPECT_EQ(from_dlpack(&scalar.handle).item(), 100);
  EXPECT_EQ(scalar.deleted, 1);

  Foreign empty(nullptr, {3, 0});
  empty.with_strides({-1, 1ll << 62}).handle.dl_tensor.byte_offset = 3;
  EXPECT_EQ(from_dlpack(&empty.handle).strides(), IntList({1, 1}));
  EXPECT_EQ(empty.deleted, 1);

  Foreign undeletable(values.data(), {12});
  undeletable.handle.deleter = nullptr;
  EXPECT_EQ(from_dlpack(&undeletable.handle)[3].item(), 3);
}

TEST(DLPack, StridesOfSingleEntriesMeanNothing) {
  std::array<float, 6> values = {0, 1, 2, 3, 4, 5};
  for (const std::int64_t any : {std::int64_t{-24}, INT64_MIN, INT64_MAX}) {
    Foreign foreign(values.data(), {1, 3, 1, 2});
    foreign.with_strides({any, 2, any, 1});
    const Tensor x = from_dlpack(&foreign.handle);
    EXPECT_EQ(x.strides(), IntList({6, 2, 2, 1}));
    EXPECT_TRUE(x.is_contiguous());
    EXPECT_EQ(x.narrow(0, 1, 0).narrow(2, 1, 0).numel(), 0);
    expect_values(x, {0, 1, 2, 3, 4, 5});
  }
}

TEST(DLPack, ImportsEndWithTheirLastTensor) {
  std::array<float, 4> values = {1, 2, 3, 4};
  Foreign foreign(values.data(), {2, 2});
  const std::int64_t before = cpu::memory_allocated();
  {
    Tensor row, exported;
    {
      const Tensor x = from_dlpack(&foreign.handle);
      row = x[1];
      exported = from_dlpack(to_dlpack(x));
    }
    EXPECT_EQ(foreign.deleted, 0);
    expect_values(row, {3, 4});
    row = {};
    EXPECT_EQ(foreign.deleted, 0);
    expect_values(exported, {1, 2, 3, 4});
  }
  EXPECT_EQ(foreign.deleted, 1);
  EXPECT_EQ(cpu::memory_allocated(), before);
}

TEST(DLPack, ImportsHaveGradients) {
  std::array<float, 3> values = {1, 2, 3};
  Foreign foreign(values.data(), {3});
  {
    const Tensor x = from_dlpack(&foreign.handle).requires_grad_();
    (x * x).sum().backward();
    expect_values(x.grad(), {2, 4, 6});
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPack, ReleasedByManyThreads) {
  constexpr int kThreads = 4, kRounds = 200;
  std::array<float, 4> values = {1, 2, 3, 4};
  const std::int64_t before = cpu::memory_allocated();
  for (int round = 0; round < kRounds; ++round) {
    Foreign foreign(values.data(), {4});
    Tensor x = full({2000}, 1.0), imported = from_dlpack(&foreign.handle);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([handle = to_dlpack(x), again = to_dlpack(imported), part = imported] {
        end(handle);
        end(again);
      });
    }
    x = imported = {};
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    EXPECT_EQ(foreign.deleted, 1);
  }
  EXPECT_EQ(cpu::memory_allocated(), before);
}

TEST(DLPack, RefusedImports) {
  alignas(8) std::array<float, 12> values = {};
  // What the change makes of a handle of size [2, 3] is refused, and stays the caller's.
  const auto refused = [&](auto change) {
    Foreign foreign(values.data(), {2, 3});
    foreign.with_strides({3, 1});
    change(foreign, foreign.handle.dl_tensor);
    try {
      from_dlpack(&foreign.handle);
    } catch (...) {
      EXPECT_EQ(foreign.deleted, 0);
      throw;
    }
  };
  using F = Foreign;
  using T = DLTensor;
  EXPECT_ERROR(ValueError, "from_dlpack: the handle is a null pointer", from_dlpack(nullptr));
  EXPECT_ERROR(ValueError, "null data for size [2, 3]",
               refused([](F&, T& t) { t.data = nullptr; }));
  EXPECT_ERROR(ValueError, "2 dimensions but no shape",
               refused([](F&, T& t) { t.shape = nullptr; }));
  EXPECT_ERROR(ValueError, "no multiple of 4, the size of float32 elements",
               refused([](F&, T& t) { t.byte_offset = 2; }));
  EXPECT_ERROR(ValueError, "no multiple of 8, the size of float64 elements", refused([](F&, T& t) {
                 t.dtype.bits = 64;
                 t.byte_offset = 4;
               }));
  EXPECT_ERROR(ValueError, "exceed the address space",
               refused([](F&, T& t) { t.byte_offset = UINT64_MAX - 3; }));
  EXPECT_ERROR(ValueError, "exceed the address space", refused([](F&, T& t) {
                 t.byte_offset = UINT64_MAX - reinterpret_cast<std::uintptr_t>(t.data) - 7;
               }));

  EXPECT_ERROR(DeviceError, "device of DLPack's type 2",
               refused([](F&, T& t) { t.device.device_type = kDLCUDA; }));
  EXPECT_ERROR(DeviceError, "copy them there",
               refused([](F&, T& t) { t.device.device_type = kDLCUDAHost; }));

  const auto of_type = [&](DLDataType type) { refused([type](F&, T& t) { t.dtype = type; }); };
  EXPECT_ERROR(DTypeError, "the elements are uint16", of_type({kDLUInt, 16, 1}));
  EXPECT_ERROR(DTypeError, "the elements are complex64", of_type({kDLComplex, 64, 1}));
  EXPECT_ERROR(DTypeError, "float32 in vectors of 4", of_type({kDLFloat, 32, 4}));
  EXPECT_ERROR(DTypeError, "float32 in vectors of 0", of_type({kDLFloat, 32, 0}));
  EXPECT_ERROR(DTypeError, "int4", of_type({kDLInt, 4, 1}));
  EXPECT_ERROR(DTypeError, "bool1", of_type({6, 1, 1}));
  EXPECT_ERROR(DTypeError, "opaque64", of_type({kDLOpaqueHandle, 64, 1}));
  EXPECT_ERROR(DTypeError, "type 200 of 8", of_type({200, 8, 1}));

  EXPECT_ERROR(ShapeError, "9 dimensions, a tensor has 8 at most",
               refused([](F&, T& t) { t.ndim = 9; }));
  EXPECT_ERROR(ShapeError, "-1 dimensions", refused([](F&, T& t) { t.ndim = -1; }));
  EXPECT_ERROR(ShapeError, "from_dlpack: size [2, -3] has a negative entry",
               refused([](F& f, T&) { f.shape[1] = -3; }));
  EXPECT_ERROR(ShapeError, "multiply to more than 2^63",
               refused([](F& f, T&) { f.shape[0] = f.shape[1] = 1ll << 40; }));
  EXPECT_ERROR(ShapeError, "a float32 tensor of size [2305843009213693952, 1] exceeds",
               refused([](F& f, T&) {
                 f.shape = {1ll << 61, 1};
                 f.handle.dl_tensor.shape = f.shape.data();
               }));
  EXPECT_ERROR(ShapeError, "strides [-3, 1] have a negative entry",
               refused([](F& f, T&) { f.strides[0] = -3; }));
  EXPECT_ERROR(ShapeError, "strides [9223372036854775807, 1] exceeds the address space",
               refused([](F& f, T&) { f.strides[0] = INT64_MAX; }));
  EXPECT_ERROR(ShapeError, "strides [1, 1] share memory",
               refused([](F& f, T&) { f.strides[0] = 1; }));
  EXPECT_ERROR(ShapeError, "strides [3, 9223372036854775807] exceeds",
               refused([](F& f, T&) { f.strides[1] = INT64_MAX; }));
}

}  // namespace
}  // namespace facula
