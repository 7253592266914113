// Running sums of rows by blocks, of columns side by side, in and past the caches.
#include <facula/generator.h>
#include <facula/ops.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/kernels/cumsum.h"
#include "backends/cpu/streaming.h"
#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

TEST(Cumsum, OfRowsAndColumnsIsThatInDoubleRounded) {
  manual_seed(7);
  for (const Dims& sizes : {Dims{3, 63}, Dims{3, 64}, Dims{2, 127}, Dims{5, 128}, Dims{4, 1000},
                            Dims{7, 4103}, Dims{2, 70'001}, Dims{400, 4096}}) {
    const Tensor x = randn(sizes);
    const Tensor exact = cumsum(x.to(kFloat64), 1);
    const Tensor of_columns = cumsum(x.t().contiguous(), 0).t();
    for (const Tensor& y : {cumsum(x, 1), of_columns, cumsum(x.t().contiguous().t(), 1)}) {
      ASSERT_EQ(y.dtype(), kFloat32);
      // Half a unit in the last place, and what sums in double in another order differ by.
      const Tensor error = (y.to(kFloat64) - exact).abs() / (exact.abs() + 1e-6);
      EXPECT_LT(error.amax().item(), 6.1e-8) << fmt::format("{}", sizes);
    }
  }
}

TEST(Cumsum, OfFewLongLinesBesideEachOther) {
  manual_seed(8);
  for (const std::int64_t n : {1, 2, 3, 5, 8, 15}) {
    for (const DType dtype : {kInt64, kUInt8, kFloat32, kFloat64}) {
      const Tensor x = randint(0, 9, {20'003, n}).to(dtype);  // exact in any order
      EXPECT_TRUE(equal(cumsum(x, 0), cumsum(x.t().contiguous(), 1).t())) << n << name_of(dtype);
      EXPECT_TRUE(equal(cumsum(x, 0)[20'002].to(kFloat64), sum(x.to(kFloat64), {0}))) << n;
    }
  }
}

TEST(Cumsum, OfRowsHasTheSameBitsByHalvesAndByWholes) {
  for (const std::int64_t n : {64, 200, 4096}) {
    const Tensor x = randn({n});
    for (const bool stream : {false, true}) {
      const Tensor by_halves = empty({n}), by_wholes = empty({n});
      const auto run = [&](const Tensor& y, bool wholes) {
        cpu::cumsum_kernels().row(x.data_ptr<float>(), n, y.data_ptr<float>(), stream, wholes);
      };
      run(by_halves, false);
      run(by_wholes, true);
      if (stream) cpu::finish_streaming();
      EXPECT_TRUE(equal(by_halves, by_wholes)) << n << " " << stream;
    }
  }
}

// What is not finite reaches what comes after it, and nothing before.
TEST(Cumsum, OfRowsWithInfinitiesAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t place : {0, 7, 8, 63, 64, 130, 299}) {
    for (const float value : {infinity, -infinity, std::nanf("")}) {
      const Tensor x = ones({300});
      x[place].fill_(value);
      const Tensor y = cumsum(x, 0);
      EXPECT_TRUE(equal(y.narrow(0, 0, place), arange(1, place + 1, 1, kFloat32))) << place;
      for (std::int64_t i = place; i < 300; ++i) {
        const float own = y[i].item<float>();
        EXPECT_TRUE(own == value || (std::isnan(own) && std::isnan(value))) << place << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace facula
