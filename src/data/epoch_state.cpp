#include "data/epoch_state.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "base/cpu_info.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "core/host_allocator.h"

namespace facula::data {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kWarnAfter = 30;   // seconds of waiting for a batch
constexpr double kLongest = 1e9;    // seconds that clocks can count
constexpr double kGiveUpAfter = 5;  // seconds of waiting for a thread when an epoch is left

double clock_seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

StateDict LoaderState::saved(const ReadPosition& position) const {
  StateDict state;
  state.set("epoch", position.epoch);
  state.set("position", position.delivered);
  state.set("seed", seed);
  state.set("size", size);
  if (size < 0) {
    state.set("shards", shards);
    state.set("batch_size", batch_size);
    if (!position.failed.empty()) state.set("failed", tensor(position.failed));
  }
  return state;
}

ReadPosition LoaderState::beginning(std::int64_t number) {
  const std::lock_guard lock(mutex);
  return number == loaded.epoch ? loaded : ReadPosition{.epoch = number};
}

std::uint64_t LoaderState::begun(const ReadPosition& position) {
  latest = position;
  // Epochs before it, such as an evaluation's, may come between loading and going on.
  if (position.epoch >= loaded.epoch) loaded = {.epoch = -1};
  return ++latest_serial;
}

void LoaderState::load(ReadPosition position) {
  const std::lock_guard lock(mutex);
  ++latest_serial;  // no epoch's
  latest = loaded = std::move(position);
}

Epoch::State::State(std::unique_ptr<BatchSource> batches,
                    std::shared_ptr<const DataLoaderOptions> options,
                    std::shared_ptr<LoaderState> loader, ReadPosition from)
    : source_(std::move(batches)),
      options_(std::move(options)),
      loader_(std::move(loader)),
      automatic_(options_->num_workers == kAuto),
      ended_(static_cast<std::size_t>(source_->shards())),
      shards_left_(source_->shards()),
      position_(std::move(from)) {
  position_.delivered = source_->position(0);
  const std::lock_guard lock(loader_->mutex);
  largest_batch_ = loader_->largest_batch;
  if (!automatic_) {
    setting_ = {.workers = options_->num_workers};
  } else if (base::in_parallel_region()) {
    // It lies within a data set of another loader, and would wait for threads that may all be
    // waiting for it: the caller makes its batches.
  } else if (options_->timeout > 0) {
    // What the caller is busy with cannot be given up.
    setting_ = {.workers = base::usable_cpus()};
  } else {
    setting_ = loader_->tuner.setting();
    holds_tuner_ = !loader_->tuner_taken;
    probing_ = loader_->tuner.probing();
    loader_->tuner_taken = true;
  }
}

void Epoch::State::start() {
  const std::lock_guard lock(mutex_);
  const std::lock_guard loader_lock(loader_->mutex);
  apply_or_do_without(setting_);
  serial_ = loader_->begun(position_);
}

void Epoch::State::apply_or_do_without(const WorkerSetting& setting) {
  if (apply(setting)) return;
  if (holds_tuner_) {
    loader_->tuner.do_without_threads();
    probing_ = true;
  }
  apply({});
}

bool Epoch::State::apply(const WorkerSetting& setting) {
  setting_ = setting;
  ++generation_;
  set_capacity();
  if (setting.workers == 0) return true;
  LoaderThreads& threads = LoaderThreads::instance();
  threads_ = &threads;
  try {
    threads.serve(shared_from_this(), setting.workers, automatic_);
  } catch (const Error& refused) {
    if (!automatic_ || options_->timeout > 0) throw;
    log_warning("{}; batches are made between steps", refused.what());
    return false;
  }
  return true;
}

bool Epoch::State::threads_are_here() const {
  const LoaderThreads* threads = threads_;
  return threads == nullptr || threads == &LoaderThreads::instance();
}

void Epoch::State::check_threads() const {
  check<Error>(threads_are_here(),
               "DataLoader: this epoch was begun before fork(), and the threads that make its "
               "batches are not in this process; begin another epoch here");
}

bool Epoch::State::all_claimed() const {
  const auto tickets = source_->tickets();
  return tickets ? claimed_ >= *tickets : shards_left_ == 0;
}

/// The next ticket, or null if there is none.
std::shared_ptr<Epoch::State::Slot> Epoch::State::claim() {
  if (all_claimed()) return nullptr;
  while (ended_[static_cast<std::size_t>(claimed_ % source_->shards())]) ++claimed_;
  auto slot = std::make_shared<Slot>();
  slot->ticket = claimed_;
  slot->generation = generation_;
  pending_.push_back(slot);
  ++claimed_;
  claim_error_ = nullptr;
  return slot;
}

void Epoch::State::make(Slot& slot, bool parallel) noexcept {
  try {
    slot.made = source_->make(slot.ticket, parallel, slot.activity);
  } catch (...) {
    slot.error = std::current_exception();
  }
}

bool Epoch::State::run_one() noexcept {
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || working_ >= setting_.workers || pending_.size() >= capacity_) return false;
    try {
      slot = claim();
    } catch (...) {  // no memory: whoever waits for the batch tells
      claim_error_ = std::current_exception();
    }
    if (slot) ++working_;
  }
  if (!slot) {
    changed_.notify_all();
    return false;
  }
  make(*slot, false);
  {
    const std::lock_guard lock(mutex_);
    slot->ready = true;
    slot.reset();  // what it holds, perhaps an exception, is the consumer's alone from now on
    --working_;
    if (left_behind_ > 0) {
      --left_behind_;
      threads_.load()->found(automatic_);
    }
  }
  changed_.notify_all();
  return true;
}

/// The slot of the next ticket, made; null after the last.
std::shared_ptr<Epoch::State::Slot> Epoch::State::take_front(std::unique_lock<std::mutex>& lock) {
  // The caller never helps background threads: it would be one thread more than there are CPUs for,
  // and everyone would wait for the batch that it makes, the first in order.
  if (pending_.empty() && setting_.workers == 0) {
    const std::shared_ptr<Slot> slot = claim();
    if (!slot) return nullptr;
    const bool parallel = setting_.pool;
    lock.unlock();
    make(*slot, parallel);
    lock.lock();
    slot->ready = true;
  } else if (pending_.empty()) {
    if (all_claimed()) return nullptr;
    threads_.load()->wake();
  }
  wait_for_front(lock);
  if (pending_.empty()) std::rethrow_exception(std::exchange(claim_error_, nullptr));
  std::shared_ptr<Slot> slot = pending_.front();
  pending_.pop_front();
  if (slot->made.shard_ended) {
    const auto shard = static_cast<std::size_t>(slot->ticket % source_->shards());
    if (!ended_[shard]) --shards_left_;
    ended_[shard] = true;
  }
  return slot;
}

/// Waits until somebody has begun the next ticket and made its batch, or could not begin it.
void Epoch::State::wait_for_front(std::unique_lock<std::mutex>& lock) {
  const auto ready = [this] {
    return pending_.empty() ? claim_error_ != nullptr : pending_.front()->ready;
  };
  if (ready()) return;
  const bool limited = options_->timeout > 0;
  const double limit = limited ? std::min(options_->timeout, kLongest) : kWarnAfter;
  if (changed_.wait_for(lock, Seconds(limit), ready)) return;
  const std::int64_t sample = pending_.empty() ? -1 : pending_.front()->activity.sample.load();
  if (sample < 0) {
    constexpr const char* kWhy =
        "the threads that automatic loaders share may all hang in the data set of another loader; "
        "num_workers gives this one its own";
    check<Error>(!limited,
                 "DataLoader: no thread has begun the next batch after {} s, the time that "
                 "`timeout` allows; {}",
                 limit, kWhy);
    log_warning("DataLoader: no thread has begun the next batch for {} s; {}", limit, kWhy);
    return changed_.wait(lock, ready);
  }
  const std::string about = source_->describe(sample);
  if (limited) {
    throw SampleError(
        fmt::format("{}: not ready after {} s, the time that DataLoader's `timeout` allows; it may "
                    "hang in reading",
                    about, limit),
        sample);
  }
  log_warning("DataLoader: waiting for {} since {} s; it may hang in reading", about, limit);
  changed_.wait(lock, ready);
}

bool Epoch::State::next(Batch& batch) {
  check_threads();
  batch = Batch();  // before the next one is made: its memory can serve again
  const std::lock_guard turn(consumers_);
  const double entered = clock_seconds(CLOCK_MONOTONIC);
  const double entered_cpu = cpu_seconds();
  std::unique_lock lock(mutex_);
  for (;;) {
    const std::shared_ptr<Slot> slot = take_front(lock);
    if (!slot) return false;
    if (setting_.workers > 0 && pending_.size() <= capacity_ / 2) threads_.load()->wake();
    deliver(*slot);
    if (slot->error) std::rethrow_exception(slot->error);
    if (!slot->made.batch) continue;
    batch = std::move(*slot->made.batch);
    limit_memory(batch);
    measure(*slot, entered, entered_cpu);
    return true;
  }
}

void Epoch::State::deliver(const Slot& slot) {
  position_.delivered = source_->position(slot.ticket + 1);
  if (slot.error && slot.activity.shard_failed) position_.failed.push_back(slot.ticket);
  const std::lock_guard lock(loader_->mutex);
  if (loader_->latest_serial == serial_) loader_->latest = position_;
}

bool Epoch::State::is_over() {
  check_threads();
  const std::lock_guard lock(mutex_);
  return pending_.empty() && all_claimed();
}

StateDict Epoch::State::state_dict() {
  check_threads();
  const std::lock_guard lock(mutex_);
  return loader_->saved(position_);
}

/// Batches that wait take an eighth of the memory at most that tensors may take. While nobody knows
/// how large they are, each thread makes one.
void Epoch::State::set_capacity() {
  std::int64_t most = std::max(setting_.workers, 1);
  if (largest_batch_ > 0) {
    const std::int64_t memory = std::min(base::usable_memory_bytes(), host_memory_cap());
    most = std::clamp<std::int64_t>(memory / 8 / largest_batch_, 1, 1024);
  }
  const int wanted =
      options_->prefetch == kAuto ? std::max(2, 2 * setting_.workers) : options_->prefetch;
  const std::size_t before =
      std::exchange(capacity_, static_cast<std::size_t>(std::min<std::int64_t>(wanted, most)));
  if (setting_.workers > 0 && capacity_ > before && threads_) threads_.load()->wake();
}

void Epoch::State::limit_memory(const Batch& batch) {
  std::int64_t bytes = 1;
  for (const Batch::Field& field : batch.fields()) {
    if (field.tensor.defined()) bytes += field.tensor.nbytes();
  }
  if (bytes <= largest_batch_) return;
  largest_batch_ = bytes;
  set_capacity();
  const std::lock_guard lock(loader_->mutex);
  loader_->largest_batch = std::max(loader_->largest_batch, bytes);
}

double Epoch::State::cpu_seconds() const {
  return holds_tuner_ && probing_ ? clock_seconds(CLOCK_PROCESS_CPUTIME_ID) : 0;
}

void Epoch::State::measure(const Slot& slot, double entered, double entered_cpu) {
  if (!holds_tuner_) return;
  const double now = clock_seconds(CLOCK_MONOTONIC);
  const bool comparable = slot.generation == generation_ && last_generation_ == generation_;
  if (comparable) {
    const std::lock_guard lock(loader_->mutex);
    WorkerTuner& tuner = loader_->tuner;
    const WorkerTuner::Timing timing{.period = now - returned_,
                                     .making = now - entered,
                                     .making_cpu = cpu_seconds() - entered_cpu,
                                     .use_cpu = entered_cpu - returned_cpu_};
    if (tuner.add(timing)) apply_or_do_without(tuner.setting());
    probing_ = tuner.probing();
  }
  last_generation_ = slot.generation;
  returned_ = now;
  returned_cpu_ = cpu_seconds();
}

void Epoch::State::close() noexcept {
  LoaderThreads* threads = threads_;
  if (threads && threads_are_here()) {
    threads->remove(this);
    std::unique_lock lock(mutex_);
    closed_ = true;
    for (const auto& slot : pending_) slot->activity.cancelled = true;
    const double patience =
        options_->timeout > 0 ? std::min(options_->timeout, kLongest) : kGiveUpAfter;
    if (!changed_.wait_for(lock, Seconds(patience), [this] { return working_ == 0; })) {
      for (const auto& slot : pending_) {
        // Below 0: it waits for its turn behind one that hangs.
        if (slot->ready || slot->activity.sample < 0) continue;
        log_warning(
            "DataLoader: {} has not been read after {} s; the thread that hangs there is "
            "left behind",
            source_->describe(slot->activity.sample), patience);
      }
      left_behind_ = working_;
      threads->replace_lost(left_behind_, automatic_);
    }
    pending_.clear();
    // A thread may hold this a moment longer, but what belongs to the caller ends here.
    if (working_ == 0) {
      source_.reset();
      options_.reset();
    }
  }
  if (holds_tuner_) {
    const std::lock_guard lock(loader_->mutex);
    loader_->tuner_taken = false;
  }
}

}  // namespace facula::data
