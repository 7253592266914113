#include "data/loader_threads.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include <facula/memory.h>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_pool.h"

namespace facula::data {

std::atomic<LoaderThreads*> LoaderThreads::current = nullptr;

namespace {

thread_local bool tl_is_loader_thread = false;

}  // namespace

LoaderThreads& LoaderThreads::instance() {
  // Never destroyed: at exit its threads sleep, or hang in a read that does not end.
  [[maybe_unused]] static const bool made = [] {
    current = new LoaderThreads;
    // The threads, and whoever held the mutex, are not in the child.
    pthread_atfork(nullptr, nullptr, [] { current = new LoaderThreads; });
    return true;
  }();
  return *current;
}

/// Threads for all jobs that share.
int LoaderThreads::budget() const {
  int most = 0;
  for (const Entry& entry : jobs_) {
    if (entry.shared_budget) most = std::max(most, entry.threads);
  }
  return most;
}

void LoaderThreads::serve(const std::shared_ptr<BackgroundJob>& job, int threads,
                          bool shared_budget) {
  // Threads that were at the first use of memory during a fork() would bar the child from it.
  cpu::memory_stats();
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const Entry& entry) { return entry.job == job; });
  jobs_.push_back({job, threads, shared_budget});
  int wanted = budget() + lost_;
  for (const Entry& entry : jobs_) wanted += entry.shared_budget ? 0 : entry.threads;
  try {
    for (; threads_ < wanted; ++threads_) std::thread([this] { run(); }).detach();
  } catch (const std::system_error& refused) {
    // A thread of ours that asks for others is busy with that, as those beside it may be.
    if (threads_ <= lost_ || tl_is_loader_thread) {
      jobs_.pop_back();
      fail<Error>(
          "DataLoader: the system gives no thread ({}); raise its limit (ulimit -u, cgroups), or "
          "set num_workers = 0",
          refused.what());
    }
    // Once, though a search for the best number asks for them time and again.
    if (std::exchange(warned_of_, threads_) != threads_) {
      log_warning("DataLoader: {} background threads instead of {} ({})", threads_, wanted,
                  refused.what());
    }
  }
  ++wakes_;
  woken_.notify_all();
}

void LoaderThreads::wake() {
  {
    const std::lock_guard lock(mutex_);
    ++wakes_;
  }
  woken_.notify_all();
}

void LoaderThreads::remove(const BackgroundJob* job) {
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [job](const Entry& entry) { return entry.job.get() == job; });
}

void LoaderThreads::replace_lost(int threads, bool shared_budget) {
  const std::lock_guard lock(mutex_);
  lost_ += threads;
  if (shared_budget) lost_sharing_ += threads;
}

void LoaderThreads::found(bool shared_budget) {
  const std::lock_guard lock(mutex_);
  --lost_;
  if (shared_budget) --lost_sharing_;
}

/// Holds one job at a time: what others are about, such as a data set, is to go with their owner.
bool LoaderThreads::run_any(std::size_t& turn) {
  for (std::size_t i = 0;; ++i) {
    Entry entry;
    {
      const std::lock_guard lock(mutex_);
      if (i >= jobs_.size()) return false;
      entry = jobs_[++turn % jobs_.size()];
    }
    if (run_one_of(entry)) return true;
  }
}

/// Where the budget is spent, the threads at work look for more when they are done.
bool LoaderThreads::run_one_of(const Entry& entry) {
  if (!entry.shared_budget) return entry.job->run_one();
  {
    const std::lock_guard lock(mutex_);
    if (sharing_ >= budget() + lost_sharing_) return false;
    ++sharing_;
  }
  const bool ran = entry.job->run_one();
  const std::lock_guard lock(mutex_);
  --sharing_;
  return ran;
}

void LoaderThreads::run() {
  base::become_background_thread("facula-loader");
  tl_is_loader_thread = true;
  std::size_t turn = 0;
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [&] { return wakes_ != seen; });
      seen = wakes_;
    }
    while (run_any(turn)) {
    }
  }
}

}  // namespace facula::data
