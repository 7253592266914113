// Where the time of making batches goes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace facula::data {

/// As in StageSeconds.
enum class Stage : std::uint8_t { read, transform, decode, write };
inline constexpr int kStages = 4;

/// Nanoseconds of all threads in each stage while `enabled`.
struct StageTimes {
  std::atomic<bool> enabled{false};
  std::atomic<std::int64_t> nanoseconds[kStages] = {};
};
StageTimes& stage_times();

/// Adds the time of its life to a stage, and takes it from another that encloses it.
class StageTimer {
 public:
  explicit StageTimer(Stage stage) : stage_(stage) {
    if (stage_times().enabled.load(std::memory_order_relaxed)) start_ = now();
  }
  StageTimer(Stage stage, Stage enclosing) : StageTimer(stage) {
    enclosing_ = static_cast<int>(enclosing);
  }
  ~StageTimer() {
    if (start_ == 0) return;
    const std::int64_t spent = now() - start_;
    stage_times().nanoseconds[static_cast<int>(stage_)] += spent;
    if (enclosing_ >= 0) stage_times().nanoseconds[enclosing_] -= spent;
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  static std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  Stage stage_;
  int enclosing_ = -1;
  std::int64_t start_ = 0;
};

}  // namespace facula::data
