#include "train/checkpoint_writer.h"

#include <exception>
#include <system_error>
#include <utility>

#include <facula/autograd.h>

#include "base/check.h"
#include "base/thread_pool.h"

namespace facula::train {
namespace {

thread_local bool copying_here = false;

}  // namespace

StateDict snapshot_of(const StateDict& state) {
  const NoGradGuard no_grad;
  StateDict copy;
  for (const auto& [key, value] : state.entries()) {
    if (const auto* tree = value.get_if<StateDict>()) {
      copy.set(key, snapshot_of(*tree));
    } else if (const auto* tensor = value.get_if<Tensor>(); tensor && tensor->defined()) {
      Tensor contents = empty(tensor->sizes(), tensor->dtype());
      contents.copy_(tensor->detach());
      copy.set(key, std::move(contents));
    } else {
      copy.set(key, value);
    }
  }
  return copy;
}

CheckpointWriter::CheckpointWriter(CheckpointFolder& folder, bool enabled) : folder_(folder) {
  if (!enabled) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& refused) {
    fail<Error>(
        "checkpoints: the system gives no thread to write them ({}); raise its limit (ulimit -u, "
        "cgroups), or train without checkpoints",
        refused.what());
  }
  reclaimer_.emplace([this] { wait_for_its_memory(); });
}

CheckpointWriter::~CheckpointWriter() {
  reclaimer_.reset();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool CheckpointWriter::busy() {
  const std::lock_guard lock(mutex_);
  return job_.has_value();
}

std::optional<CheckpointWriter::Outcome> CheckpointWriter::outcome() {
  const std::lock_guard lock(mutex_);
  return std::exchange(outcome_, std::nullopt);
}

bool CheckpointWriter::start(std::int64_t step, const StateDict& state,
                             const std::optional<Score>& score) {
  std::optional<Job> job{{.step = step, .snapshot = {}, .score = score}};
  // At once, so that those who wait for memory do not see a moment without a snapshot.
  const auto change = [&](bool copying) {
    {
      const std::lock_guard lock(mutex_);
      copying_ = copying_here = copying;
      if (!copying) job_ = std::move(job);
    }
    changed_.notify_all();
  };
  change(true);
  bool copied = true;
  try {
    try {
      job->snapshot = snapshot_of(state);
    } catch (const OutOfMemory&) {
      copied = false;
      job->snapshot = state;
    }
  } catch (...) {
    job.reset();
    memory_has_come_back();
    change(false);
    throw;
  }
  change(false);
  return copied;
}

void CheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !job_; });
}

void CheckpointWriter::wait_for_its_memory() {
  std::unique_lock lock(mutex_);
  // Who makes copies, which others may be waiting for, waits for writers only: they wait for
  // nobody.
  changed_.wait(lock, [this] { return !job_ && (copying_here || !copying_); });
}

void CheckpointWriter::run() {
  base::become_background_thread("checkpoints");
  const NoReclaim others_wait;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return job_ || ending_; });
    if (!job_) return;
    lock.unlock();
    Outcome outcome{.step = job_->step, .error = {}};
    try {
      folder_.write(job_->step, job_->snapshot, job_->score);
    } catch (const std::exception& error) {
      outcome.error = error.what();
    }
    job_->snapshot = StateDict();  // its memory is free before another snapshot is taken
    lock.lock();
    job_.reset();
    memory_has_come_back();
    outcome_ = std::move(outcome);
    changed_.notify_all();
  }
}

}  // namespace facula::train
