#include "backends/cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include <facula/parallel.h>

#include "backends/cpu/kernels/peak.h"
#include "base/thread_pool.h"

namespace facula::cpu {

double measure_peak_gflops() {
  using Clock = std::chrono::steady_clock;
  constexpr int kTrials = 5;
  constexpr std::int64_t kRounds = 200'000;  // a millisecond or two
  std::vector<double> operations(static_cast<std::size_t>(get_num_threads()));
  const auto slices = static_cast<std::int64_t>(operations.size());
  double best = 0;
  for (int trial = 0; trial <= kTrials; ++trial) {  // the first wakes the threads
    const auto start = Clock::now();
    base::parallel_for(slices, [&](std::int64_t slice) {
      operations[static_cast<std::size_t>(slice)] = peak_kernels().multiply_add(kRounds);
    });
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    const double sum = std::accumulate(operations.begin(), operations.end(), 0.0);
    if (trial > 0) best = std::max(best, sum * 1e-9 / elapsed.count());
  }
  return best;
}

}  // namespace facula::cpu
