// The background threads of all loaders of the process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace facula::data {

/// Work of which there may be several pieces at a time.
class BackgroundJob {
 public:
  virtual ~BackgroundJob() = default;
  /// Does one piece; false if there is none to do now. Never throws.
  virtual bool run_one() noexcept = 0;
};

/// Threads are started when first needed, serve the jobs in turn, and sleep while none has work.
/// Jobs that share a budget get together, however many threads there are, the number of the one
/// that wants most; others bring threads of their own.
class LoaderThreads {
 public:
  /// Another one, without jobs, in the child of a fork().
  static LoaderThreads& instance();

  /// Sees to it that up to `threads` threads can serve the job, and wakes them. Throws Error if the
  /// system gives none and there is none, or only such as the caller, which may wait for each
  /// other.
  void serve(const std::shared_ptr<BackgroundJob>& job, int threads, bool shared_budget);
  /// The job may have work again.
  void wake();
  /// No thread begins another piece of the job.
  void remove(const BackgroundJob* job);
  /// Threads hang in a job that was given up: others may take their place.
  void replace_lost(int threads, bool shared_budget);
  /// One of them has come back.
  void found(bool shared_budget);

 private:
  LoaderThreads() = default;
  static std::atomic<LoaderThreads*> current;

  struct Entry {
    std::shared_ptr<BackgroundJob> job;
    int threads = 0;
    bool shared_budget = false;
  };

  int budget() const;
  void run();
  bool run_any(std::size_t& turn);
  bool run_one_of(const Entry& entry);

  std::mutex mutex_;
  std::condition_variable woken_;
  std::vector<Entry> jobs_;
  std::uint64_t wakes_ = 0;
  int threads_ = 0, lost_ = 0;
  int warned_of_ = -1;                  // threads there were when the system gave no more
  int sharing_ = 0, lost_sharing_ = 0;  // threads at jobs that share the budget
};

}  // namespace facula::data
