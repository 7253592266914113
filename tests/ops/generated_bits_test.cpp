// Equal bits for every number of threads and, compared by isa_bits_test.py, every instruction set.
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <facula/parallel.h>

#include "tests/ops/every_op.h"
#include "tests/ops/large_examples.h"
#include "tests/support/problems.h"

namespace facula::test {
namespace {

/// FNV-1a over dtype, shape and elements.
std::uint64_t hash_of(const std::vector<Tensor>& tensors) {
  std::uint64_t hash = 0xcbf29ce484222325;
  auto mix = [&hash](const void* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
    }
  };
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const Tensor dense = tensor.detach().contiguous();
    const DType dtype = dense.dtype();
    mix(&dtype, sizeof(dtype));
    mix(dense.sizes().data(), dense.sizes().size() * sizeof(std::int64_t));
    mix(dense.raw_data(), static_cast<std::size_t>(dense.nbytes()));
  }
  return hash;
}

std::uint64_t hash_of_call(const ops::DynamicOp& op, const Sample& sample) {
  const Outcome outcome = run_with_gradients(op, sample);
  std::vector<Tensor> tensors = outcome.results;
  tensors.insert(tensors.end(), outcome.gradients.begin(), outcome.gradients.end());
  return hash_of(tensors);
}

std::vector<std::uint64_t> hashes_of(const ops::DynamicOp& op) {
  std::vector<std::uint64_t> hashes;
  for (const Sample& sample : examples_of(op)) hashes.push_back(hash_of_call(op, sample));
  return hashes;
}

/// Likewise with floating arguments in `dtype`, as far as the op takes them.
std::vector<std::uint64_t> hashes_of(const ops::DynamicOp& op, DType dtype) {
  std::vector<std::uint64_t> hashes;
  for (const Sample& sample : examples_of(op)) {
    try {
      hashes.push_back(hash_of_call(op, mapped(sample, to_dtype(dtype))));
    } catch (const Error&) {
      hashes.push_back(0);
    }
  }
  return hashes;
}

class EveryBit : public OpTest {
 protected:
  ~EveryBit() override { set_num_threads(threads_); }

 private:
  int threads_ = get_num_threads();
};

TEST_P(EveryBit, IsTheSameForAnyNumberOfThreads) {
  std::vector<std::uint64_t> expected;
  for (int threads : thread_counts()) {
    set_num_threads(threads);
    const std::vector<std::uint64_t> hashes = hashes_of(op());
    if (expected.empty()) expected = hashes;
    EXPECT_EQ(hashes, expected) << threads << " threads";
  }
}

FACULA_FOR_EVERY_OP(EveryBit);

TEST(OpBits, Write) {
  const char* path = std::getenv("FACULA_OP_BITS");
  if (!path) GTEST_SKIP() << "FACULA_OP_BITS, the file to write, is not set";
  std::ofstream file(path);
  for (const ops::DynamicOp* op : all_ops()) {
    const auto write = [&](const std::string& name, const std::vector<std::uint64_t>& hashes) {
      file << name;
      for (std::uint64_t hash : hashes) file << ' ' << std::hex << hash;
      file << '\n';
    };
    write(op->name, hashes_of(*op));
    for (DType dtype : {kFloat64, kInt64, kInt32, kUInt8}) {
      write(fmt::format("{}:{}", op->name, name_of(dtype)), hashes_of(*op, dtype));
    }
  }
  ASSERT_TRUE(file.flush());
}

}  // namespace
}  // namespace facula::test
