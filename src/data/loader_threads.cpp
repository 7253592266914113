#include "data/loader_threads.h"

#include <algorithm>
#include <thread>

#include "base/thread_pool.h"

namespace facula::data {

LoaderThreads& LoaderThreads::instance() {
  // Never destroyed: at exit its threads sleep, or hang in a read that does not end.
  static LoaderThreads* const threads = new LoaderThreads;
  return *threads;
}

void LoaderThreads::serve(const std::shared_ptr<BackgroundJob>& job, int threads,
                          bool shared_budget) {
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const Entry& entry) { return entry.job == job; });
  jobs_.push_back({job, threads, shared_budget});
  int budget = 0, own = lost_;
  for (const Entry& entry : jobs_) {
    if (entry.shared_budget) {
      budget = std::max(budget, entry.threads);
    } else {
      own += entry.threads;
    }
  }
  for (; threads_ < budget + own; ++threads_) std::thread([this] { run(); }).detach();
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

void LoaderThreads::replace_lost(int threads) {
  const std::lock_guard lock(mutex_);
  lost_ += threads;
}

bool LoaderThreads::run_any(std::size_t& turn) {
  std::vector<std::shared_ptr<BackgroundJob>> jobs;
  {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : jobs_) jobs.push_back(entry.job);
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[++turn % jobs.size()]->run_one()) return true;
  }
  return false;
}

void LoaderThreads::run() {
  base::become_background_thread("facula-loader");
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
