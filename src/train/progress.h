// What a training run tells its user while it goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include <facula/train.h>

namespace facula::train {

/// "42 s", "3:07", "1:02:03".
std::string format_duration(double seconds);

/// Shows one line per epoch, and within epochs the state of affairs: on a
/// terminal in a line that is rewritten, elsewhere as a line every 10 s.
class ProgressDisplay {
 public:
  ProgressDisplay(Progress where, std::int64_t epochs, std::int64_t steps_per_epoch);
  /// Leaves the cursor at the start of a line, whatever happened.
  ~ProgressDisplay() { clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// After step `step` (from 1) of epoch `epoch` (from 1); `running` are the
  /// epoch's averages so far.
  void step(std::int64_t epoch, std::int64_t step, const Metrics& running, double items_per_s);
  void epoch(const EpochReport& report);
  /// A line of its own.
  void message(const std::string& text);
  /// To standard error, even if nothing else is shown.
  void warning(const std::string& text);
  /// So many steps were done before.
  void resume(std::int64_t steps) { steps_before_ = steps; }

 private:
  using Clock = std::chrono::steady_clock;

  void clear();

  std::FILE* out_ = nullptr;  // null: silent
  bool terminal_ = false;
  bool line_shown_ = false;
  std::int64_t epochs_, steps_per_epoch_, steps_before_ = 0;
  Clock::time_point start_, last_shown_;
};

}  // namespace facula::train
