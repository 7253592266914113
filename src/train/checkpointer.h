// When a run writes checkpoints, and what it says about them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <facula/train.h>

#include "base/function_ref.h"
#include "train/checkpoint_folder.h"
#include "train/checkpoint_writer.h"

namespace facula::train {

/// Where a run stands: after `step` steps, in `epoch` (from 1) or, once that is over, the next.
struct Moment {
  std::int64_t step = 0, epoch = 1;

  bool operator==(const Moment&) const = default;
};

class Checkpointer {
 public:
  using Capture = FunctionRef<StateDict()>;
  using Warn = std::function<void(const std::string&)>;

  Checkpointer(CheckpointFolder& folder, const CheckpointOptions& options, Warn warn);

  /// The run goes on from the checkpoint of this moment, which holds `state`.
  void resumed(Moment moment, const StateDict& state);
  /// Takes a snapshot of what `capture` gives if one is due.
  void after_step(Moment moment, Capture capture);
  void after_epoch(Moment moment, const Score& score, Capture capture);
  /// Writes a last one, unless there is one of this moment, and waits for it. Throws IoError.
  void finish(Moment moment, Capture capture);

 private:
  using Clock = std::chrono::steady_clock;

  bool due(std::int64_t step) const;
  void start(Moment moment, const std::optional<Score>& score, Capture capture);
  void postpone();
  void report();
  void report_failure(const std::string& error);

  CheckpointFolder& folder_;
  const CheckpointOptions options_;
  const Warn warn_;
  CheckpointWriter writer_;

  Moment last_;              // of the snapshot taken last
  Clock::time_point taken_;  // then
  bool waiting_ = false;     // one is due, but the writer is busy
  bool said_postponed_ = false;
  std::string error_;  // of the last attempt, if it failed
  Clock::time_point warned_;
};

}  // namespace facula::train
