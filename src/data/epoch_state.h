// One pass over a data set: tickets claimed, made and delivered in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <facula/data/data_loader.h>

#include "data/batch_source.h"
#include "data/loader_threads.h"
#include "data/worker_tuner.h"

namespace facula::data {

/// What the epochs of a loader have in common.
struct LoaderState {
  explicit LoaderState(WorkerTuner::Limits limits) : tuner(limits) {}
  /// What DataLoader::load_state_dict() takes.
  StateDict saved(const ReadPosition& position) const;
  /// Where epoch `number` begins.
  ReadPosition beginning(std::int64_t number);
  /// An epoch has begun: a position that was loaded of it, or of one before, has served. Returns
  /// its number among all of them. The mutex is held.
  std::uint64_t begun(const ReadPosition& position);
  void load(ReadPosition position);

  // Of the loader, for its saved positions.
  std::int64_t seed = 0, size = -1;         // -1: a stream, of which the next two are
  std::int64_t shards = 0, batch_size = 0;  // part of a position's meaning

  std::mutex mutex;
  WorkerTuner tuner;
  std::int64_t largest_batch = 0;  // of all epochs, in bytes
  bool tuner_taken = false;        // by a running epoch; others keep the setting they find
  ReadPosition latest;             // of the epoch begun last
  std::uint64_t latest_serial = 0;
  ReadPosition loaded{.epoch = -1};
};

struct Epoch::State : BackgroundJob, std::enable_shared_from_this<Epoch::State> {
  State(std::unique_ptr<BatchSource> batches, std::shared_ptr<const DataLoaderOptions> options,
        std::shared_ptr<LoaderState> loader, ReadPosition from);

  /// To be called once a shared_ptr holds this.
  void start();
  bool next(Batch& batch);
  bool is_over();
  StateDict state_dict();
  bool run_one() noexcept override;
  /// Gives up what is being made. Returns when no thread is at it, or when one does not come back.
  void close() noexcept;

 private:
  /// A ticket that somebody has claimed.
  struct Slot {
    std::int64_t ticket = 0;
    std::uint64_t generation = 0;  // of the setting
    bool ready = false;
    Activity activity;
    Made made;
    std::exception_ptr error;
  };

  /// False in the child of a fork(), whose threads, and whatever they held, stay with the parent.
  bool threads_are_here() const;
  void check_threads() const;
  /// CPU seconds of the process while the tuner asks for them; reading that clock is a system call.
  double cpu_seconds() const;
  /// False, with a warning, where kAuto wants threads and the system gives none.
  bool apply(const WorkerSetting& setting);
  /// The same, with the caller alone where there are no threads. The loader's mutex is held.
  void apply_or_do_without(const WorkerSetting& setting);
  /// Whether no ticket is left to be claimed.
  bool all_claimed() const;
  std::shared_ptr<Slot> claim();
  void make(Slot& slot, bool parallel) noexcept;
  std::shared_ptr<Slot> take_front(std::unique_lock<std::mutex>& lock);
  void wait_for_front(std::unique_lock<std::mutex>& lock);
  void deliver(const Slot& slot);
  void set_capacity();
  void limit_memory(const Batch& batch);
  void measure(const Slot& slot, double entered, double entered_cpu);

  std::unique_ptr<BatchSource> source_;
  std::shared_ptr<const DataLoaderOptions> options_;
  const std::shared_ptr<LoaderState> loader_;
  const bool automatic_;
  std::uint64_t serial_ = 0;
  bool holds_tuner_ = false, probing_ = false;
  std::atomic<LoaderThreads*> threads_ = nullptr;  // that serve this epoch, if any

  std::mutex consumers_;  // held by the one thread that is in next()
  std::mutex mutex_;
  std::condition_variable changed_;
  WorkerSetting setting_;
  std::uint64_t generation_ = 0;
  std::int64_t largest_batch_ = 0;  // so far, in bytes
  std::size_t capacity_ = 2;        // batches made ahead at most
  std::int64_t claimed_ = 0;
  int working_ = 0, left_behind_ = 0;  // threads
  bool closed_ = false;
  std::deque<std::shared_ptr<Slot>> pending_;  // in the order of tickets
  std::exception_ptr claim_error_;             // of the last attempt to begin a ticket
  std::vector<bool> ended_;                    // shards
  std::int64_t shards_left_;
  ReadPosition position_;

  // Of the batch delivered last.
  std::uint64_t last_generation_ = 0;
  double returned_ = 0, returned_cpu_ = 0;
};

}  // namespace facula::data
