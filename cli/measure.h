// Timing repeated steps, and what they cost besides time.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace facula::cli {

/// How long a work is measured: warm-up steps that do not count until both of their bounds are
/// reached (of short steps it takes many until each thread has had a share of every loop), then
/// steps until both others are.
struct Duration {
  double seconds = 5;
  double warmup_seconds = 0.2;
  std::int64_t warmup_steps = 5;
  std::int64_t least_steps = 20;
};

struct Measurement {
  std::int64_t steps = 0;
  double median_ms = 0, min_ms = 0, max_ms = 0;
  double minor_faults_per_step = 0;
  double cpu_over_wall = 0;  ///< processor time over time: how many cores were busy
  double peak_rss_mib = 0;
  double loss_first = std::nan(""),
         loss_last = std::nan("");  ///< NaN where there is no loss
};

/// Calls step(0), step(1), ...; it returns the loss, or NaN.
Measurement measure(const Duration& duration, const std::function<double(std::int64_t)>& step);

/// Room for the times of as many steps as are measured, in use beforehand: the vector's growth
/// would count as page faults of the steps.
std::vector<double> room_for_times();

double median(std::vector<double> values);

}  // namespace facula::cli
