// Measuring what this machine can do at most: float32 FMA throughput, with the
// instruction set that the library uses, and memory bandwidth.
//
// Bandwidths count every byte that the program reads or writes once (a copy of
// N bytes moves 2N); the reads that ordinary stores cause in the hardware are
// not counted. 1 GB = 1e9 bytes.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include <facula/error.h>
#include <facula/system.h>

namespace facula::machine {

inline constexpr int kTrials = 15;
inline constexpr size_t kArrayBytes = size_t{256} << 20;  // per array, split among the threads

// Keeps the compiler from removing the computation of `value`.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

// --- Memory ----------------------------------------------------------------------------------

// 64 bytes, one cache line; lowered to whatever vectors the target has.
typedef float Line __attribute__((vector_size(64)));

// The clones are chosen while the program is loaded, before ThreadSanitizer is ready for that. What
// a sanitizer would add to every access is not the machine's doing.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FACULA_EVERY_TARGET \
  __attribute__((target_clones("avx512f", "avx2", "default"), no_sanitize("address")))
#else
#define FACULA_EVERY_TARGET __attribute__((no_sanitize("thread")))
#endif

FACULA_EVERY_TARGET inline void read_lines(const Line* x, size_t count) {
  Line a{}, b{}, c{}, d{};
  for (size_t i = 0; i < count; i += 4) {
    a += x[i];
    b += x[i + 1];
    c += x[i + 2];
    d += x[i + 3];
  }
  a += b + c + d;
  keep(a);
}

FACULA_EVERY_TARGET inline void copy_lines(Line* y, const Line* x, size_t count) {
  // The empty asm hides that this is memcpy: the compiler would call the
  // library's, whose choice of non-temporal stores differs between systems.
  for (size_t i = 0; i < count; ++i) {
    y[i] = x[i];
    asm volatile("" : : : "memory");
  }
}

FACULA_EVERY_TARGET inline void update_lines(Line* x, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = x[i] * 0.5f + 1.0f;
}

// An array in huge pages where the system has them; pages are touched by the
// thread that uses them.
class Array {
 public:
  Array() {
    // Ordinary mappings may start anywhere; over-allocating lets the array
    // start on a huge page.
    constexpr size_t kHuge = size_t{2} << 20;
    mapped_ = mmap(nullptr, kArrayBytes + kHuge, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) {
      throw OutOfMemory(
          "measuring the memory's bandwidth takes arrays of 256 MiB, for which there is no room; "
          "raise the limits of the process (ulimit -v)");
    }
    const auto address = (reinterpret_cast<uintptr_t>(mapped_) + kHuge - 1) / kHuge * kHuge;
    lines_ = reinterpret_cast<Line*>(address);
    length_ = kArrayBytes + kHuge;
    madvise(lines_, kArrayBytes, MADV_HUGEPAGE);
  }
  ~Array() { munmap(mapped_, length_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  Line* part(int thread, int threads) { return lines_ + part_lines(threads) * thread; }
  static size_t part_lines(int threads) {
    return kArrayBytes / sizeof(Line) / static_cast<size_t>(threads) / 4 * 4;
  }
  static double part_bytes(int threads) {
    return static_cast<double>(part_lines(threads) * sizeof(Line));
  }

 private:
  void* mapped_;
  size_t length_;
  Line* lines_;
};

// --- Measurement -----------------------------------------------------------------------------

struct Rate {
  double median, min, max;
};

inline void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

inline std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// Runs `work(thread)` on pinned threads `trials` times (after one untimed run)
// and returns its rate; `work` returns the amount done, and a trial lasts from
// the common start to the last end.
inline Rate rate_of(const std::vector<int>& cpus, const std::function<double(int)>& work,
                    int trials = kTrials) {
  using Clock = std::chrono::steady_clock;
  const int threads = static_cast<int>(cpus.size());
  std::vector<double> amounts(cpus.size()), rates;
  Clock::time_point start;
  bool warm = false;
  std::barrier begin(threads, [&]() noexcept { start = Clock::now(); });
  std::barrier end(threads, [&]() noexcept {
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    double amount = 0;
    for (const double a : amounts) amount += a;
    if (warm) rates.push_back(amount / elapsed.count());
    warm = true;
  });
  rates.reserve(static_cast<size_t>(trials));
  std::vector<std::thread> team;
  team.reserve(cpus.size());
  for (int t = 0; t < threads; ++t) {
    team.emplace_back([&, t] {
      pin_to(cpus[static_cast<size_t>(t)]);
      for (int trial = 0; trial <= trials; ++trial) {
        begin.arrive_and_wait();
        amounts[static_cast<size_t>(t)] = work(t);
        end.arrive_and_wait();
      }
    });
  }
  for (auto& thread : team) thread.join();
  std::sort(rates.begin(), rates.end());
  return {rates[rates.size() / 2], rates.front(), rates.back()};
}

struct Limit {
  const char* key;    // in the JSON
  const char* label;  // in the table
  Rate one, all;
};

/// Rounds of multiply-adds that take about 20 ms.
inline std::int64_t calibrate() {
  for (std::int64_t rounds = 1000;; rounds *= 2) {
    const auto start = std::chrono::steady_clock::now();
    run_multiply_adds(rounds);
    if (std::chrono::steady_clock::now() - start > std::chrono::milliseconds(20)) return rounds;
  }
}

/// Float32 multiply-adds with one thread on each of `cpus`, in GFLOP/s.
inline Rate fma_gflops(const std::vector<int>& cpus) {
  const std::int64_t rounds = calibrate();
  return rate_of(cpus, [&](int) { return run_multiply_adds(rounds) * 1e-9; });
}

/// A pass over `x` that reads and writes every element, in GB/s.
inline Rate inplace_gb_s(const std::vector<int>& cpus, Array& x, int trials = kTrials) {
  const int threads = static_cast<int>(cpus.size());
  return rate_of(
      cpus,
      [&](int thread) {
        update_lines(x.part(thread, threads), Array::part_lines(threads));
        return 2e-9 * Array::part_bytes(threads);
      },
      trials);
}

inline Rate read_gb_s(const std::vector<int>& cpus, Array& x) {
  const int threads = static_cast<int>(cpus.size());
  return rate_of(cpus, [&](int thread) {
    read_lines(x.part(thread, threads), Array::part_lines(threads));
    return 1e-9 * Array::part_bytes(threads);
  });
}

inline Rate copy_gb_s(const std::vector<int>& cpus, Array& x, Array& y) {
  const int threads = static_cast<int>(cpus.size());
  return rate_of(cpus, [&](int thread) {
    copy_lines(y.part(thread, threads), x.part(thread, threads), Array::part_lines(threads));
    return 2e-9 * Array::part_bytes(threads);
  });
}

/// All limits, with one thread and with one on each of `cpus`.
inline std::vector<Limit> measure_all(const std::vector<int>& cpus) {
  const std::vector<int> first{cpus[0]};
  std::vector<Limit> limits;
  limits.push_back({"fma_gflops", "fp32 FMA GFLOP/s", fma_gflops(first), fma_gflops(cpus)});
  Array x, y;
  // The in-place pass comes first: it touches the pages, and untouched pages
  // would all be the same zero page for a reader.
  limits.push_back({"inplace_gb_s", "in-place GB/s (read + write)", inplace_gb_s(first, x),
                    inplace_gb_s(cpus, x)});
  limits.push_back({"read_gb_s", "read GB/s", read_gb_s(first, x), read_gb_s(cpus, x)});
  limits.push_back(
      {"copy_gb_s", "copy GB/s (read + write)", copy_gb_s(first, x, y), copy_gb_s(cpus, x, y)});
  return limits;
}

}  // namespace facula::machine
