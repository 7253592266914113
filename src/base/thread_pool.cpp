#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/cpu_info.h"
#include "base/env.h"
#include "base/log.h"
#include "base/signals.h"

namespace facula::base {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxThreads = 1024;
// Longer than the gaps between operations of a training step, shorter than anything a user notices.
constexpr std::chrono::microseconds kSpinTime{50};
constexpr size_t kCacheLine = 64;

// Set in workers for good and in a caller while its job runs: parallel_for is inline then.
[[gnu::tls_model("initial-exec")]] thread_local constinit bool tls_in_region = false;

void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Where one thread waits: it spins first, because waking a sleeper costs the waker a system call
/// and the sleeper tens of microseconds.
class Parking {
 public:
  /// Returns once ready() is true. Whoever makes it true must then call wake(); the change itself
  /// and the loads in ready() must be sequentially consistent, or a wake-up could be missed.
  template <class Ready>
  void wait(Clock::duration spin_time, Ready ready) noexcept {
    while (!spin(spin_time, ready)) {
      asleep_.store(1);
      if (ready()) {
        asleep_.store(0);
        return;
      }
      asleep_.wait(1);
    }
  }

  void wake() noexcept {
    if (asleep_.load() != 0 && asleep_.exchange(0) != 0) asleep_.notify_one();
  }

 private:
  template <class Ready>
  static bool spin(Clock::duration spin_time, Ready ready) noexcept {
    if (ready()) return true;
    if (spin_time == Clock::duration::zero()) return false;
    const Clock::time_point deadline = Clock::now() + spin_time;
    do {
      for (int i = 0; i < 32; ++i) {
        pause_cpu();
        if (ready()) return true;
      }
    } while (Clock::now() < deadline);
    return false;
  }

  std::atomic<uint32_t> asleep_{0};
};

/// The slices first meant for one thread: consecutive ones, so that each thread meets the same part
/// of a tensor in one operation after the other, in its own cache and its own node's memory.
struct alignas(kCacheLine) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

struct alignas(kCacheLine) Worker {
  Parking parking;
  uint32_t index = 0;  // the caller is number 0
  uint32_t last_generation = 0;
  pthread_t thread{};
};

/// The word that admits workers to a job. From the lowest bit: 16 bits number of workers inside, 16
/// bits number of participants (worker i may enter if i is less; 0 when closed), 32 bits
/// generation, by which a worker knows a job it has not seen.
struct Gate {
  static constexpr uint64_t kInside = 0xffff;
  static constexpr uint64_t kParticipants = 0xffff0000;
  static constexpr uint32_t kStop = 0xffff;  // as number of participants: workers end

  static constexpr uint64_t make(uint32_t generation, uint32_t participants) {
    return uint64_t{generation} << 32 | uint64_t{participants} << 16;
  }
  static constexpr uint32_t inside(uint64_t word) { return static_cast<uint32_t>(word & kInside); }
  static constexpr uint32_t participants(uint64_t word) {
    return static_cast<uint32_t>((word & kParticipants) >> 16);
  }
  static constexpr uint32_t generation(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
};

void run_inline(int64_t slices, FunctionRef<void(int64_t)> body) {
  for (int64_t slice = 0; slice < slices; ++slice) body(slice);
}

/// The CPU of each thread, number 0 being the caller; empty if threads shall not be pinned.
///
/// Unless FACULA_PIN decides, threads are pinned only if there is one for each CPU of the affinity
/// mask. A smaller pool shares the machine with other processes that have the same mask (ranks of a
/// distributed job, containers with a quota), and all of them would crowd onto its first CPUs.
std::vector<int> cpus_to_pin(int threads, std::optional<bool> wanted) {
  const std::vector<int>& cpus = affinity_cpus();
  const auto count = static_cast<size_t>(threads);
  if (count > cpus.size() || !wanted.value_or(count == cpus.size())) return {};
  return {cpus.begin(), cpus.begin() + threads};
}

/// Failure costs speed at most (a CPU may have gone offline), so it is ignored.
void pin_thread(pthread_t thread, int cpu) {
  if (cpu >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  pthread_setaffinity_np(thread, sizeof set, &set);
}

/// Signals are for the user's threads, but for the profiling timer's.
sigset_t leave_signals_to_others() noexcept { return block_signals({SIGABRT, SIGPROF}); }

/// One job at a time runs on the pool; `busy_` is held meanwhile, and while the crew of workers is
/// changed. A worker takes part if it comes in time, but nobody waits for one that sleeps or has
/// lost its CPU: the caller ends the job when all slices are claimed and those inside have left.
/// That keeps more threads than CPUs harmless.
class Pool {
 public:
  /// Never destroyed, because destructors of static objects may still compute.
  static Pool& instance() {
    static Pool* const pool = new Pool;
    return *pool;
  }

  int threads() {
    const int threads = threads_.load(std::memory_order_relaxed);
    return threads != 0 ? threads : default_threads();
  }

  void set_threads(int threads) {
    if (!lock()) return;
    const Unlocker unlocker{*this};
    if (threads != threads_.load(std::memory_order_relaxed)) {
      stop_workers();
      threads_.store(threads, std::memory_order_relaxed);
    }
  }

  void set_thread_init(void (*init)()) {
    if (!lock()) return;
    const Unlocker unlocker{*this};
    if (init != thread_init_.load()) {
      stop_workers();  // new ones will run it
      thread_init_.store(init);
    }
  }

  /// What every worker does when it starts, also for a thread of somebody else's, which must not
  /// wait for a job that may be waiting for it.
  void initialise_this_thread() const {
    if (void (*const init)() = thread_init_.load()) init();
  }

  void run(int64_t slices, FunctionRef<void(int64_t)> body) {
    if (slices <= 1 || tls_in_region || threads() == 1 || !try_lock()) {
      return run_inline(slices, body);
    }
    std::exception_ptr error;
    {
      const Unlocker unlocker{*this};
      if (!started_) start_workers();
      run_locked(slices, body);
      if (failed_.load(std::memory_order_relaxed)) {
        error = std::exchange(error_, nullptr);
        failed_.store(false, std::memory_order_relaxed);
      }
    }
    if (error) std::rethrow_exception(std::move(error));
  }

 private:
  Pool() {
    pthread_atfork(nullptr, nullptr, [] { instance().after_fork_in_child(); });
    std::atexit([] { instance().shut_down(); });
  }

  int default_threads() {
    int expected = 0;
    const int threads = static_cast<int>(env_int("FACULA_NUM_THREADS", 1, kMaxThreads)
                                             .value_or(std::min(usable_cpus(), kMaxThreads)));
    return threads_.compare_exchange_strong(expected, threads) ? threads : expected;
  }

  bool try_lock() noexcept {
    return !busy_.load(std::memory_order_relaxed) &&
           !busy_.exchange(true, std::memory_order_acquire);
  }
  struct Unlocker {
    Pool& pool;
    ~Unlocker() { pool.unlock(); }
  };
  void unlock() noexcept { busy_.store(false, std::memory_order_release); }
  /// Waits for the pool; false after shut_down(), which keeps the lock.
  bool lock() {
    while (!try_lock()) {
      if (finished_.load()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return true;
  }

  void run_locked(int64_t slices, FunctionRef<void(int64_t)> body) noexcept {
    const auto participants =
        static_cast<uint32_t>(std::min<int64_t>(slices, static_cast<int64_t>(worker_count_) + 1));
    body_ = &body;
    deal(slices, participants);
    gate_.store(Gate::make(++generation_, participants));
    for (uint32_t i = 1; i < participants; ++i) workers_[i - 1].parking.wake();

    tls_in_region = true;
    work(0);
    tls_in_region = false;

    const uint64_t inside = gate_.fetch_and(~Gate::kParticipants) & Gate::kInside;
    if (inside != 0) {
      caller_.wait(spin_time_, [this] { return Gate::inside(gate_.load()) == 0; });
    }
  }

  /// Cuts the slices into one share for each participant.
  void deal(int64_t slices, uint32_t participants) noexcept {
    participants_ = participants;
    const int64_t size = slices / participants, larger = slices % participants;
    int64_t begin = 0;
    for (uint32_t i = 0; i < participants; ++i) {
      const int64_t end = begin + size + (i < larger ? 1 : 0);
      shares_[i].next.store(begin, std::memory_order_relaxed);
      shares_[i].end = end;
      begin = end;
    }
  }

  /// The thread's own share first, then what the others have left.
  void work(uint32_t self) noexcept {
    try {
      for (uint32_t i = 0; i < participants_; ++i) {
        Share& share = shares_[(self + i) % participants_];
        for (;;) {
          const int64_t slice = share.next.fetch_add(1, std::memory_order_relaxed);
          if (slice >= share.end) break;
          (*body_)(slice);
        }
      }
    } catch (...) {
      for (uint32_t i = 0; i < participants_; ++i) {
        shares_[i].next.store(shares_[i].end, std::memory_order_relaxed);
      }
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  void serve(Worker& self) noexcept {
    tls_in_region = true;
    initialise_this_thread();
    for (;;) {
      self.parking.wait(spin_time_, [&] { return invited(self, gate_.load()); });
      uint64_t word = gate_.load();
      while (invited(self, word)) {
        if (Gate::participants(word) == Gate::kStop) return;
        if (!gate_.compare_exchange_weak(word, word + 1)) continue;
        self.last_generation = Gate::generation(word);
        work(self.index);
        word = gate_.fetch_sub(1) - 1;
        if (Gate::inside(word) == 0 && Gate::participants(word) == 0) caller_.wake();
      }
    }
  }

  static bool invited(const Worker& worker, uint64_t word) noexcept {
    return worker.index < Gate::participants(word) &&
           worker.last_generation != Gate::generation(word);
  }

  void start_workers();
  void stop_workers() noexcept;
  bool start_worker(Worker& worker, const std::vector<int>& cpus);

  /// Only the forking thread lives on in the child, where new workers are started when first
  /// needed. A body that forks must exec or _exit in the child: slices of other threads are lost
  /// there.
  void after_fork_in_child() noexcept {
    // If another thread was changing the crew, its array is in an unknown state: give it up.
    if (busy_.load() && !tls_in_region) {
      (void)workers_.release();
      (void)shares_.release();
    }
    workers_.reset();
    worker_count_ = 0;
    started_ = false;
    gate_.store(Gate::make(generation_, 0));
    if (!tls_in_region && !finished_.load()) unlock();
  }

  /// At exit. A job that still runs (in another thread, or exit() was called by a body) is left
  /// alone; its threads end with the process.
  void shut_down() noexcept {
    if (tls_in_region || !try_lock()) return;
    stop_workers();
    finished_.store(true);  // and `busy_` stays set: later calls run inline
  }

  alignas(kCacheLine) std::atomic<uint64_t> gate_{0};
  alignas(kCacheLine) std::atomic<bool> busy_{false};
  alignas(kCacheLine) Parking caller_;

  // Written by the holder of `busy_` before it opens the gate.
  alignas(kCacheLine) FunctionRef<void(int64_t)>* body_ = nullptr;
  uint32_t participants_ = 0;
  uint32_t generation_ = 0;
  Clock::duration spin_time_{};
  std::atomic<void (*)()> thread_init_{nullptr};
  std::unique_ptr<Worker[]> workers_;
  std::unique_ptr<Share[]> shares_;  // one for each worker and number 0 for the caller
  int worker_count_ = 0;
  bool started_ = false;

  std::exception_ptr error_;
  std::atomic<bool> failed_{false};
  std::atomic<int> threads_{0};  // 0 until first asked for
  std::atomic<bool> finished_{false};
};

void Pool::start_workers() {
  const int threads = threads_.load(std::memory_order_relaxed);
  const std::optional<bool> pin = env_bool("FACULA_PIN");
  const std::vector<int> cpus = cpus_to_pin(threads, pin);
  spin_time_ = threads <= usable_cpus() ? Clock::duration(kSpinTime) : Clock::duration::zero();
  workers_ = std::make_unique<Worker[]>(static_cast<size_t>(threads - 1));
  shares_ = std::make_unique<Share[]>(static_cast<size_t>(threads));

  const sigset_t previous = leave_signals_to_others();  // what threads start with
  while (worker_count_ < threads - 1 && start_worker(workers_[worker_count_], cpus)) {
    ++worker_count_;
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  started_ = true;

  if (worker_count_ < threads - 1) {
    log_warning(
        "thread pool: the system gave {} of {} worker threads; raise its limit on threads or "
        "lower FACULA_NUM_THREADS",
        worker_count_, threads - 1);
  }
  // The caller is the user's thread: pinned, it would hand its mask on to every thread it starts
  // (data loaders, other libraries), which then share one CPU. Hence only on demand.
  if (!cpus.empty() && pin.value_or(false)) pin_thread(pthread_self(), cpus[0]);
}

bool Pool::start_worker(Worker& worker, const std::vector<int>& cpus) {
  worker.index = static_cast<uint32_t>(worker_count_) + 1;
  worker.last_generation = generation_;
  const auto entry = [](void* argument) -> void* {
    instance().serve(*static_cast<Worker*>(argument));
    return nullptr;
  };
  if (pthread_create(&worker.thread, nullptr, entry, &worker) != 0) return false;
  pthread_setname_np(worker.thread, fmt::format("facula-{}", worker.index).c_str());
  if (!cpus.empty()) pin_thread(worker.thread, cpus[worker.index]);
  return true;
}

void Pool::stop_workers() noexcept {
  if (!started_) return;
  gate_.store(Gate::make(++generation_, Gate::kStop));
  for (int i = 0; i < worker_count_; ++i) workers_[i].parking.wake();
  for (int i = 0; i < worker_count_; ++i) pthread_join(workers_[i].thread, nullptr);
  gate_.store(Gate::make(generation_, 0));
  workers_.reset();
  shares_.reset();
  worker_count_ = 0;
  started_ = false;
}

}  // namespace

void parallel_for(int64_t slices, FunctionRef<void(int64_t)> body) {
  Pool::instance().run(slices, body);
}

void become_background_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
  leave_signals_to_others();
  tls_in_region = true;
  Pool::instance().initialise_this_thread();
}

bool in_parallel_region() noexcept { return tls_in_region; }

void set_thread_init(void (*init)()) {
  check<ValueError>(!tls_in_region,
                    "set_thread_init: called inside parallel_for; call it before computing");
  Pool::instance().set_thread_init(init);
}

}  // namespace facula::base

namespace facula {

int get_num_threads() { return base::Pool::instance().threads(); }

void set_num_threads(int threads) {
  check<ValueError>(threads >= 1 && threads <= base::kMaxThreads,
                    "set_num_threads: {} threads; choose from 1 to {}", threads, base::kMaxThreads);
  check<ValueError>(!base::tls_in_region,
                    "set_num_threads: called inside parallel_for; call it before computing");
  base::Pool::instance().set_threads(threads);
}

}  // namespace facula
