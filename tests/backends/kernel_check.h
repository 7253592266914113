// Comparing kernels with the double reference, and with themselves on other numbers of threads.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include <facula/generator.h>
#include <facula/ops.h>
#include <facula/parallel.h>

#include "backends/cpu/caches.h"
#include "base/check.h"
#include "runtime/mode.h"
#include "tests/support/problems.h"

namespace facula {

/// Random problems and values, the same in every run.
class Source {
 public:
  explicit Source(unsigned seed) : engine_(seed), generator_(seed) {}

  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool coin() { return integer(0, 1) == 1; }
  Tensor values(IntList sizes, DType dtype = kFloat32, MemoryFormat format = kContiguous) {
    const DType drawn = dtype == kFloat64 ? kFloat64 : kFloat32;
    return randn(sizes, drawn, &generator_).to(dtype).contiguous(format);
  }

 private:
  std::mt19937 engine_;
  Generator generator_;
};

using Results = std::vector<Tensor>;

/// Fails unless the values agree within `tolerance` times the largest expected magnitude.
inline void expect_close(const Tensor& actual, const Tensor& expected, double tolerance,
                         const std::string& what) {
  ASSERT_TRUE(actual.sizes() == expected.sizes()) << what;
  const auto a = actual.to_vector<double>(), b = expected.to_vector<double>();
  double scale = 1e-30;
  for (double x : b) {
    if (std::isfinite(x)) scale = std::max(scale, std::fabs(x));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) ? !std::isnan(a[i])
                         : !(a[i] == b[i] || std::fabs(a[i] - b[i]) <= tolerance * scale)) {
      FAIL() << what << ": element " << i << " is " << a[i] << ", expected " << b[i] << " (largest "
             << scale << ")";
    }
  }
}

/// Runs `compute` with the usual kernels and with the reference.
inline void expect_like_reference(const std::function<Results()>& compute, double tolerance,
                                  const std::string& what) {
  const Results actual = compute();
  Results expected;
  {
    runtime::ModeGuard reference(runtime::kReference);
    expected = compute();
  }
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    expect_close(actual[i], expected[i], tolerance, what + ", result " + std::to_string(i));
  }
}

/// How many copies of a tensor are together stored past the caches.
inline std::int64_t copies_past_caches(const Tensor& one) {
  return cpu::most_cached_bytes() / one.nbytes() + 1;
}

/// `count` copies of one image, one after the other in channels_last.
inline Tensor copies_of(const Tensor& image, std::int64_t count) {
  const IntList sizes = image.sizes();
  return image.expand({count, sizes[1], sizes[2], sizes[3]}).contiguous(kChannelsLast);
}

/// Restores the number of threads.
class ThreadsGuard {
 public:
  ~ThreadsGuard() { set_num_threads(before_); }

 private:
  int before_ = get_num_threads();
};

inline std::vector<char> bytes_of(const Tensor& tensor) {
  std::vector<char> bytes(static_cast<std::size_t>(tensor.nbytes()));
  const Tensor dense = tensor.contiguous();
  if (!bytes.empty()) std::memcpy(bytes.data(), dense.raw_data(), bytes.size());
  return bytes;
}

/// Runs `compute` on thread_counts() and, if that is not 0, on `most` threads, which are all that
/// the sanitizers look at then; the results must have the same bits.
inline void expect_same_bits_on_all_threads(const std::function<Results()>& compute,
                                            const std::string& what, int most = 0) {
  const ThreadsGuard restore;
  std::vector<int> counts = thread_counts();
  if (most > 0 && kSanitized) counts.clear();
  if (most > 0) counts.push_back(most);
  std::vector<std::vector<char>> first;
  for (int threads : counts) {
    set_num_threads(threads);
    const Results results = compute();
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (threads == counts[0]) {
        first.push_back(bytes_of(results[i]));
      } else {
        EXPECT_TRUE(bytes_of(results[i]) == first[i])
            << what << ": result " << i << " on " << threads << " threads differs from "
            << counts[0];
      }
    }
  }
}

/// Fails if bits of results depend on how far away the last-level cache is. The sanitizers look at
/// a run where it is far alone: others have it near.
inline void expect_same_bits_with_any_caches(const std::function<Results()>& compute,
                                             const std::string& what) {
  const bool before = cpu::far_last_level();
  cpu::far_last_level(true);
  const Results far = compute();
  cpu::far_last_level(false);
  const Results near = kSanitized ? far : compute();
  cpu::far_last_level(before);
  ASSERT_EQ(near.size(), far.size());
  for (std::size_t i = 0; i < near.size(); ++i) {
    EXPECT_TRUE(bytes_of(near[i]) == bytes_of(far[i])) << what << ", result " << i;
  }
}

}  // namespace facula
