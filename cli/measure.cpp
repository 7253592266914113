#include "cli/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

namespace facula::cli {
namespace {

struct Usage {
  double cpu_seconds;
  std::int64_t minor_faults;
  double peak_rss_mib;
};

Usage usage_now() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_minflt,
          static_cast<double>(usage.ru_maxrss) / 1024};
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> room_for_times() {
  std::vector<double> times(std::size_t{1} << 20);
  std::fill(times.begin(), times.end(), 1.0);
  times.clear();
  return times;
}

Measurement measure(const Duration& duration, const std::function<double(std::int64_t)>& step) {
  using Clock = std::chrono::steady_clock;
  Measurement result;
  std::int64_t index = 0;
  auto start = Clock::now(), now = start;
  const auto elapsed = [&] { return std::chrono::duration<double>(now - start).count(); };
  while (index < duration.warmup_steps || elapsed() < duration.warmup_seconds) {
    const double loss = step(index);
    if (index++ == 0) result.loss_first = loss;
    now = Clock::now();
  }
  std::vector<double> times = room_for_times();
  const Usage before = usage_now();
  start = now = Clock::now();
  while ((elapsed() < duration.seconds || result.steps < duration.least_steps) &&
         times.size() < times.capacity()) {
    result.loss_last = step(index++);
    const auto previous = now;
    now = Clock::now();
    times.push_back(std::chrono::duration<double, std::milli>(now - previous).count());
    ++result.steps;
  }
  const Usage after = usage_now();

  const auto steps = static_cast<double>(result.steps);
  result.min_ms = *std::min_element(times.begin(), times.end());
  result.max_ms = *std::max_element(times.begin(), times.end());
  result.median_ms = median(std::move(times));
  result.minor_faults_per_step =
      static_cast<double>(after.minor_faults - before.minor_faults) / steps;
  result.cpu_over_wall = (after.cpu_seconds - before.cpu_seconds) / elapsed();
  result.peak_rss_mib = after.peak_rss_mib;
  return result;
}

}  // namespace facula::cli
