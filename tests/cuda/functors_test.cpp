// Functors on a GPU: the same bits as on the CPU. Without a GPU only the tables are looked at.
#include "tests/cuda/functors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "backends/cpu/reduction.h"
#include "runtime/op_registry.h"
#include "tests/ops/every_op.h"
#include "tests/ops/large_examples.h"

namespace facula::test {
namespace {

constexpr DType kTestedTypes[] = {kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool};

std::span<const DeviceElementwise> device_elementwise() {
  return {kDeviceElementwise, kDeviceElementwiseCount};
}
std::span<const DeviceReduction> device_reductions() {
  return {kDeviceReductions, kDeviceReductionCount};
}

TEST(DeviceFunctors, HaveLoopsForTheDtypesOfTheCpu) {
  ASSERT_GT(kDeviceElementwiseCount, 0u);
  ASSERT_GT(kDeviceReductionCount, 0u);
  for (const auto& [name, loops] : device_elementwise()) {
    const Op* op = find_op(name);
    ASSERT_NE(op, nullptr) << name;
    for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
      const bool on_cpu = elementwise_loops[static_cast<int>(op->id)][dtype] != nullptr;
      EXPECT_EQ(loops[dtype] != nullptr, on_cpu) << name << ", dtype " << dtype;
    }
  }
  for (const auto& [name, loops] : device_reductions()) {
    const Op* op = find_op(name);
    ASSERT_NE(op, nullptr) << name;
    const cpu::ReductionLoops* on_cpu = cpu::reduction_loops[static_cast<int>(op->id)];
    for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
      EXPECT_EQ(loops[dtype].accumulator_bytes, on_cpu[dtype].accumulator_bytes)
          << name << ", dtype " << dtype;
    }
  }
}

/// Replaces an elementwise op's loops by the device's for the time of its life.
class ElementwiseOnDevice {
 public:
  explicit ElementwiseOnDevice(const DeviceElementwise& device)
      : row_(static_cast<int>(find_op(device.op)->id)) {
    for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
      plain_[dtype] = std::exchange(elementwise_loops[row_][dtype], device.loops[dtype]);
      direct_[dtype] = direct_loops[row_][dtype];
      if (direct_[dtype]) direct_loops[row_][dtype] = device.loops[dtype];
    }
  }
  ElementwiseOnDevice(const ElementwiseOnDevice&) = delete;
  ElementwiseOnDevice& operator=(const ElementwiseOnDevice&) = delete;
  ~ElementwiseOnDevice() {
    std::copy_n(plain_, kDTypeCount, elementwise_loops[row_]);
    std::copy_n(direct_, kDTypeCount, direct_loops[row_]);
  }

 private:
  int row_;
  ElementwiseLoop plain_[kDTypeCount], direct_[kDTypeCount];
};

/// The same for a reduction.
class ReductionOnDevice {
 public:
  explicit ReductionOnDevice(const DeviceReduction& device)
      : entry_(cpu::reduction_loops[static_cast<int>(find_op(device.op)->id)]),
        plain_(std::exchange(entry_, device.loops)) {}
  ReductionOnDevice(const ReductionOnDevice&) = delete;
  ReductionOnDevice& operator=(const ReductionOnDevice&) = delete;
  ~ReductionOnDevice() { entry_ = plain_; }

 private:
  const cpu::ReductionLoops*& entry_;
  const cpu::ReductionLoops* plain_;
};

/// The sample's tensors, but for leading masks, as `dtype`.
Sample with_dtype(const Sample& sample, DType dtype, int masks) {
  int position = 0;
  return mapped(sample, [&](const Tensor& t) { return position++ < masks ? t : t.to(dtype); });
}

/// The first element whose bits differ, all NaN being alike; -1 if there is none.
std::int64_t first_difference(const Tensor& a, const Tensor& b) {
  const auto size = static_cast<std::int64_t>(a.element_size());
  const auto* x = static_cast<const std::byte*>(a.raw_data());
  const auto* y = static_cast<const std::byte*>(b.raw_data());
  if (std::memcmp(x, y, static_cast<std::size_t>(a.nbytes())) == 0) return -1;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    if (std::memcmp(x + i * size, y + i * size, static_cast<std::size_t>(size)) == 0) continue;
    const bool nan = a.dtype() == kFloat32 && std::isnan(a.data_ptr<float>()[i]) &&
                     std::isnan(b.data_ptr<float>()[i]);
    if (!nan) return i;
  }
  return -1;
}

/// double calls the C library for some functions, and CUDA's is another; everything else has the
/// same bits.
void expect_same(const Tensor& device, const Tensor& cpu) {
  ASSERT_EQ(device.dtype(), cpu.dtype());
  ASSERT_EQ(device.sizes().vec(), cpu.sizes().vec());
  if (cpu.dtype() == kFloat64) return expect_close(device, cpu, 1e-13);
  const Tensor x = device.contiguous(), y = cpu.contiguous();
  const std::int64_t i = first_difference(x, y);
  EXPECT_EQ(i, -1) << "element " << i << " is " << x.reshape({-1})[i].item<double>() << ", not "
                   << y.reshape({-1})[i].item<double>();
}

template <class Entry>
class DeviceTest : public testing::TestWithParam<Entry> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    if (this->IsSkipped()) return;
    EXPECT_GT(device_results(), before_) << "the CPU's loops ran";
  }
  const Entry& entry() const { return this->GetParam(); }
  const ops::DynamicOp& op() const { return *ops::find_dynamic_op(entry().op); }

 private:
  std::int64_t before_ = device_results();
};

using DeviceElementwiseOp = DeviceTest<DeviceElementwise>;
using DeviceReductionOp = DeviceTest<DeviceReduction>;

const auto kNameOfParam = [](const auto& info) { return std::string(info.param.op); };
INSTANTIATE_TEST_SUITE_P(Ops, DeviceElementwiseOp, testing::ValuesIn(device_elementwise()),
                         kNameOfParam);
INSTANTIATE_TEST_SUITE_P(Ops, DeviceReductionOp, testing::ValuesIn(device_reductions()),
                         kNameOfParam);

TEST_P(DeviceElementwiseOp, AgreesOnExamples) {
  const NoGradGuard no_grad;
  const int masks = op().define().elementwise->mask_inputs;
  for (DType dtype : kTestedTypes) {
    if (!entry().loops[static_cast<int>(dtype)]) continue;
    for (const Sample& example : examples_of(op())) {
      SCOPED_TRACE(name_of(dtype));
      const Sample sample = with_dtype(example, dtype, masks);
      const Tensor expected = run(op(), sample).at(0);
      const ElementwiseOnDevice on_device(entry());
      expect_same(run(op(), sample).at(0), expected);
    }
  }
}

TEST_P(DeviceElementwiseOp, AgreesOnFloatsOfAnyBits) {
  if (!entry().loops[static_cast<int>(kFloat32)]) GTEST_SKIP() << "takes no floats";
  const NoGradGuard no_grad;
  const int masks = op().define().elementwise->mask_inputs;
  constexpr std::int64_t kCount = std::int64_t{1} << 24;
  std::mt19937 random;
  int position = 0;
  const Sample sample = mapped(typical_sample(op()), [&](const Tensor&) {
    const Tensor bits = empty({kCount}, kInt32);
    Tensor floats = empty({kCount}, kFloat32);
    auto* data = static_cast<std::uint32_t*>(bits.raw_data());
    for (std::int64_t i = 0; i < kCount; ++i) data[i] = random();
    if (position++ < masks) return bits >= 0;
    std::memcpy(floats.raw_data(), data, static_cast<std::size_t>(floats.nbytes()));
    return floats;
  });
  const Tensor expected = run(op(), sample).at(0);
  const ElementwiseOnDevice on_device(entry());
  expect_same(run(op(), sample).at(0), expected);
}

/// The device adds in another order, which rounds otherwise.
TEST_P(DeviceReductionOp, AgreesOnExamples) {
  const NoGradGuard no_grad;
  for (DType dtype : kTestedTypes) {
    if (entry().loops[static_cast<int>(dtype)].accumulator_bytes == 0) continue;
    for (const Sample& example : examples_of(op())) {
      SCOPED_TRACE(name_of(dtype));
      const Sample sample = with_dtype(example, dtype, 0);
      const std::vector<Tensor> expected = run(op(), sample);
      const ReductionOnDevice on_device(entry());
      const DType result = expected.at(0).dtype();
      expect_close(run(op(), sample), expected,
                   result == kFloat32   ? 1e-5
                   : result == kFloat64 ? 1e-13
                                        : 0);
    }
  }
}

}  // namespace
}  // namespace facula::test
