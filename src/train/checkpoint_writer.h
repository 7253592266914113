// Writes checkpoints while training goes on.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <facula/state_dict.h>

#include "core/reclaim.h"
#include "train/checkpoint_folder.h"

namespace facula::train {

/// Copies of all tensors of `state`, contiguous on the CPU, in memory that the allocator hands out
/// again once the copies are gone. Large ones are copied by all threads.
StateDict snapshot_of(const StateDict& state);

/// A thread that writes one snapshot at a time. Its interface is for one other thread, which may
/// touch the folder only while the writer is not busy. Whoever else lacks memory from the beginning
/// of the copies on, wherever in the process, waits until they are written and theirs is free.
class CheckpointWriter {
 public:
  /// Without `enabled` there is no thread, and nothing may be written.
  CheckpointWriter(CheckpointFolder& folder, bool enabled);
  /// Waits until the last one is written.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  struct Outcome {
    std::int64_t step = 0;
    std::string error;  // empty: it is durable
  };

  bool busy();
  /// What came of the job that is done, once.
  std::optional<Outcome> outcome();
  /// Must not be busy. False if there is no room for copies: the tensors are written as they are,
  /// so nobody may change them until that is done.
  bool start(std::int64_t step, const StateDict& state, const std::optional<Score>& score);
  void wait();

 private:
  struct Job {
    std::int64_t step = 0;
    StateDict snapshot;
    std::optional<Score> score;
  };

  void run();
  void wait_for_its_memory();

  CheckpointFolder& folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool copying_ = false;
  std::optional<Job> job_;  // waiting or being written
  std::optional<Outcome> outcome_;
  bool ending_ = false;
  std::thread thread_;  // uses those before
  std::optional<Reclaimer> reclaimer_;
};

}  // namespace facula::train
