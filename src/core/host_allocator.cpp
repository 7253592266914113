#include "core/host_allocator.h"

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/cpu_info.h"
#include "base/env.h"
#include "base/per_thread.h"
#include "core/pages.h"
#include "core/reclaim.h"

namespace facula {
namespace detail {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;
constexpr size_t kMapThreshold = size_t{1} << 20;  // from here on, blocks are mappings of their own
constexpr int kMaxSizeBits = 47;                   // user space of x86-64
constexpr size_t kMaxBytes = size_t{1} << kMaxSizeBits;
/// Where many sizes take turns, the cache may grow until all memory is twice the most that was live
/// at one time, and this.
constexpr int64_t kFreeCache = int64_t{64} << 20;
constexpr int kFirstBits = 12;  // the first class begins above 4096 bytes
constexpr int kClasses = (kMaxSizeBits - kFirstBits) * 8;

struct SizeClass {
  int index;
  size_t bytes;
};

size_t class_bytes(int index) {
  const int power = index / 8 + kFirstBits, step = index % 8;
  return (size_t{1} << power) + (static_cast<size_t>(step + 1) << (power - (power < 20 ? 2 : 3)));
}

/// Four classes per power of two, and eight from 1 MiB on, where a step is more memory than a class
/// costs. So a block is at most 25 % or 12.5 % larger than the request. `bytes` in (4096,
/// kMaxBytes].
SizeClass size_class_of(size_t bytes) {
  const int power = std::bit_width(bytes - 1) - 1;  // 2^power < bytes <= 2^(power + 1)
  const int shift = power - (power < 20 ? 2 : 3);
  // NOLINTNEXTLINE(*-core.UndefinedBinaryOperatorResult): more than 4096 bytes have a power
  const size_t base = size_t{1} << power;
  const size_t step = (bytes - 1 - base) >> shift;
  return {(power - kFirstBits) * 8 + static_cast<int>(step), base + ((step + 1) << shift)};
}

std::string human(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{} bytes", bytes);
}

/// Below kHugeThreshold with all pages: what shorter uses of the block leave untouched would fault
/// in the midst of later work.
void* system_allocate(size_t bytes) {
  if (bytes >= kMapThreshold) return map_pages(bytes);
  auto* block = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
  if (block == nullptr) return nullptr;
  for (size_t i = 0; i < bytes; i += kPage) block[i] = std::byte{};
  block[bytes - 1] = std::byte{};
  return block;
}

void system_free(void* block, size_t bytes) {
  unpoison(block, bytes);
  if (bytes < kMapThreshold) {
    std::free(block);
  } else {
    unmap_pages(block, bytes);
  }
}

int64_t default_cap() {
  if (const auto mebibytes = base::env_int("FACULA_HOST_MEMORY_CAP", 1, kMaxBytes >> 20)) {
    return *mebibytes << 20;
  }
  return base::usable_memory_bytes() / 10 * 8;
}

constexpr int kLoopClasses = (std::bit_width(kHugeThreshold) - 1 - kFirstBits) * 8;
/// What bodies of loops on one thread are using: blocks below kHugeThreshold, of each class.
struct UsedInLoop {
  std::array<int, kLoopClasses> blocks{};
};

class HostAllocator {
 public:
  /// Never destroyed: static objects may hold blocks to the very end.
  static HostAllocator& instance() {
    static HostAllocator* const allocator = new HostAllocator;
    return *allocator;
  }

  /// For a body of a loop, `threads` is how many run it; otherwise 0. Huge blocks, which are too
  /// dear to be there for all and have few pages, are the same for both.
  void* allocate(size_t request, int threads = 0) {
    check<ValueError>(request <= size_t{INT64_MAX},
                      "host_allocate: {} bytes is no size (as a signed number: {}); a dimension is "
                      "negative, or the product of all overflowed",
                      request, static_cast<int64_t>(request));
    const std::lock_guard lock(mutex_);
    if (request > kMaxBytes) fail_out_of_memory(request, kRaiseCap);
    const SizeClass size_class = size_class_of(request);
    std::vector<CachedBlock>& cache = caches_[size_class.index];
    UsedInLoop* used = nullptr;
    if (threads > 0 && size_class.bytes < kHugeThreshold) {
      used = &base::per_thread<UsedInLoop>();
      bring_own_to_back(cache, used);
    }
    void* block = cache.empty() ? rearrange(size_class) : take(cache);
    if (block) {
      ++stats_.cache_hits;
    } else {
      block = obtain(size_class.bytes, request);
    }
    ++stats_.allocations;
    stats_.allocated_bytes += static_cast<int64_t>(size_class.bytes);
    if (used) provide_for(threads, size_class, ++used->blocks[size_class.index]);
    update_peaks();
    unpoison(block, request);
    return block;
  }

  void free(void* block, size_t request, bool in_loop = false) noexcept {
    const SizeClass size_class = size_class_of(request);
    UsedInLoop* used = nullptr;
    if (in_loop && size_class.bytes < kHugeThreshold) used = &base::per_thread<UsedInLoop>();
    const std::lock_guard lock(mutex_);
    if (used) {
      --used->blocks[size_class.index];
      --used_in_loops_[size_class.index];
    }
    stats_.allocated_bytes -= static_cast<int64_t>(size_class.bytes);
    keep(static_cast<std::byte*>(block), size_class, used);
  }

  void* allocate_slab() {
    const std::lock_guard lock(mutex_);
    slabs_.push_back(nullptr);
    try {
      slabs_.back() = obtain(kMagazineBytes, kMagazineBytes);
    } catch (...) {
      slabs_.pop_back();
      throw;
    }
    small_allocated_ = small_block_stats().allocated_bytes;
    update_peaks();
    return slabs_.back();
  }

  void* stock_slab() noexcept {
    const std::lock_guard lock(mutex_);
    if (stats_.reserved_bytes + static_cast<int64_t>(kMagazineBytes) > cap_) return nullptr;
    try {
      slabs_.push_back(nullptr);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    slabs_.back() = system_allocate(kMagazineBytes);
    if (slabs_.back() == nullptr) {
      slabs_.pop_back();
      return nullptr;
    }
    ++stocked_slabs_;
    ++stats_.system_allocations;
    stats_.reserved_bytes += static_cast<int64_t>(kMagazineBytes);
    update_peaks();
    return slabs_.back();
  }

  cpu::MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    const SmallBlockStats small = small_block_stats();
    small_allocated_ = small.allocated_bytes;
    update_peaks();
    cpu::MemoryStats stats = stats_;
    stats.allocated_bytes += small.allocated_bytes;
    stats.allocations += small.allocations;
    // Each slab but those in stock was asked for by one small allocation; all others found a block.
    stats.cache_hits += small.allocations - static_cast<int64_t>(slabs_.size()) + stocked_slabs_;
    return stats;
  }

  void reset_peaks() {
    const std::lock_guard lock(mutex_);
    small_allocated_ = small_block_stats().allocated_bytes;
    stats_.peak_allocated_bytes = 0;
    stats_.peak_reserved_bytes = 0;
    update_peaks();
  }

  void empty_cache() {
    const std::lock_guard lock(mutex_);
    while (cached_ > 0) release_oldest();
    malloc_trim(0);  // free() keeps blocks below kMapThreshold
  }

  int64_t cap() {
    const std::lock_guard lock(mutex_);
    return cap_;
  }

  void set_cap(int64_t bytes) {
    check<ValueError>(bytes > 0, "set_host_memory_cap: {} bytes; the cap must be positive", bytes);
    const std::lock_guard lock(mutex_);
    cap_ = bytes;
    while (cached_ > 0 && stats_.reserved_bytes > cap_) release_oldest();
  }

 private:
  struct CachedBlock {
    void* memory;
    uint64_t time;  // of its release, counted in releases
    size_t bytes;
    const UsedInLoop* user;  // that of the thread that a loop ran on, or null
  };

  HostAllocator() : cap_(default_cap()) {
    // A child of fork() must not find these locked by a thread that it lacks.
    pthread_atfork(
        [] {
          instance().mutex_.lock();
          small_blocks_before_fork();
        },
        [] {
          small_blocks_after_fork_in_parent();
          instance().mutex_.unlock();
        },
        [] {
          small_blocks_after_fork_in_child();
          instance().mutex_.unlock();
        });
  }

  /// Caches as many blocks as the other threads of a loop need to hold what this one holds, where
  /// memory allows.
  void provide_for(int threads, SizeClass size_class, int used_here) noexcept {
    const int64_t needed = int64_t{threads} * used_here;
    const int64_t used = ++used_in_loops_[size_class.index];
    const auto size = static_cast<int64_t>(size_class.bytes);
    const int64_t most = std::min(cap_, 2 * most_live_ + kFreeCache);
    const auto cached = static_cast<int64_t>(caches_[size_class.index].size());
    for (int64_t i = used + cached; i < needed && stats_.reserved_bytes + size <= most; ++i) {
      void* block = system_allocate(size_class.bytes);
      if (block == nullptr) return;
      ++stats_.system_allocations;
      stats_.reserved_bytes += size;
      keep(static_cast<std::byte*>(block), size_class);
    }
  }

  /// What this thread used in a loop before is in its core's cache, what others used is not.
  static void bring_own_to_back(std::vector<CachedBlock>& cache, const UsedInLoop* used) noexcept {
    const auto own = std::find_if(cache.rbegin(), cache.rend(),
                                  [used](const CachedBlock& block) { return block.user == used; });
    if (own != cache.rend()) std::rotate(own.base() - 1, own.base(), cache.end());
  }

  void* take(std::vector<CachedBlock>& cache) noexcept {
    const CachedBlock block = cache.back();
    cache.pop_back();
    cached_ -= static_cast<int64_t>(block.bytes);
    return block.memory;
  }

  void keep(std::byte* block, SizeClass size_class, const UsedInLoop* user = nullptr) noexcept {
    poison(block, size_class.bytes);
    try {
      caches_[size_class.index].push_back({block, ++clock_, size_class.bytes, user});
    } catch (const std::bad_alloc&) {
      system_free(block, size_class.bytes);
      stats_.reserved_bytes -= static_cast<int64_t>(size_class.bytes);
      return;
    }
    cached_ += static_cast<int64_t>(size_class.bytes);
  }

  /// Keeps whole huge pages as blocks of the largest classes that they fill.
  void keep_pages(std::byte* begin, size_t bytes) noexcept {
    while (bytes > 0) {
      SizeClass size_class = size_class_of(bytes);
      while (size_class.bytes > bytes || size_class.bytes % kHugePage != 0) {
        --size_class.index;
        size_class.bytes = class_bytes(size_class.index);
      }
      keep(begin, size_class);
      begin += size_class.bytes;
      bytes -= size_class.bytes;
    }
  }

  /// A block made of cached ones of other sizes, so that tensors of many shapes need no more memory
  /// than the most they fill at one time. Null if there are none.
  void* rearrange(SizeClass wanted) {
    if (wanted.bytes < kHugeThreshold || wanted.bytes % kHugePage != 0) return nullptr;
    void* block = cut(wanted);
    return block ? block : join(wanted.bytes);
  }

  /// The front of the smallest larger block.
  void* cut(SizeClass wanted) {
    for (int index = wanted.index + 1; index < kClasses; ++index) {
      std::vector<CachedBlock>& cache = caches_[index];
      if (cache.empty() || !movable(cache.back().memory, cache.back().bytes)) continue;
      const size_t rest = cache.back().bytes - wanted.bytes;
      auto* block = static_cast<std::byte*>(take(cache));
      keep_pages(block + wanted.bytes, rest);
      return block;
    }
    return nullptr;
  }

  /// Smaller blocks, largest first, moved to consecutive addresses.
  void* join(size_t bytes) {
    size_t available = 0;
    for (const std::vector<CachedBlock>& cache : caches_) {
      for (const CachedBlock& block : cache) {
        available += movable(block.memory, block.bytes) ? block.bytes : 0;
      }
    }
    if (available < bytes) return nullptr;
    auto* to = static_cast<std::byte*>(reserve_addresses(bytes));
    size_t filled = 0;
    for (int index = kClasses - 1; to && index >= 0 && filled < bytes; --index) {
      std::vector<CachedBlock>& cache = caches_[index];
      while (filled < bytes && !cache.empty() && movable(cache.back().memory, cache.back().bytes)) {
        const size_t size = cache.back().bytes, part = std::min(size, bytes - filled);
        auto* from = static_cast<std::byte*>(take(cache));
        unpoison(from, size);
        const size_t moved = move_pages(from, part, to + filled);
        keep_pages(from + moved, size - moved);
        filled += moved;
        if (moved < part) return give_up_joining(to, filled, bytes);
      }
    }
    if (to && filled < bytes) return give_up_joining(to, filled, bytes);
    if (to) poison(to, bytes);
    return to;
  }

  void* give_up_joining(std::byte* to, size_t filled, size_t bytes) noexcept {
    keep_pages(to, filled);
    unmap_pages(to + filled, bytes - filled);
    return nullptr;
  }

  /// A new block from the system within the cap, for which cached blocks are given up.
  void* obtain(size_t bytes, size_t request) {
    const auto size = static_cast<int64_t>(bytes);
    while (cached_ > 0 && stats_.reserved_bytes + size > cap_) release_oldest();
    if (stats_.reserved_bytes + size > cap_) fail_out_of_memory(request, kRaiseCap);
    most_live_ = std::max(most_live_, stats_.reserved_bytes - cached_ + size);
    while (cached_ > 0 && stats_.reserved_bytes + size > 2 * most_live_ + kFreeCache) {
      release_oldest();
    }
    void* block = system_allocate(bytes);
    if (block == nullptr) {
      while (cached_ > 0) release_oldest();
      block = system_allocate(bytes);
      if (block == nullptr) fail_out_of_memory(request, kRaiseLimit);
    }
    ++stats_.system_allocations;
    stats_.reserved_bytes += size;
    poison(block, bytes);
    return block;
  }

  void release_oldest() noexcept {
    // Blocks are pushed and popped at the back, so each class has its oldest in front.
    std::vector<CachedBlock>* oldest = nullptr;
    for (std::vector<CachedBlock>& cache : caches_) {
      if (cache.empty()) continue;
      if (oldest == nullptr || cache.front().time < oldest->front().time) oldest = &cache;
    }
    const CachedBlock block = oldest->front();
    oldest->erase(oldest->begin());
    system_free(block.memory, block.bytes);
    cached_ -= static_cast<int64_t>(block.bytes);
    stats_.reserved_bytes -= static_cast<int64_t>(block.bytes);
  }

  void update_peaks() noexcept {
    stats_.peak_allocated_bytes =
        std::max(stats_.peak_allocated_bytes, stats_.allocated_bytes + small_allocated_);
    stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, stats_.reserved_bytes);
  }

  static constexpr const char* kRaiseCap =
      "if the machine has more memory, raise the cap (FACULA_HOST_MEMORY_CAP, in MiB)";
  static constexpr const char* kRaiseLimit =
      "since the system refused the memory, look at the limits of the process (ulimit -v, cgroups)";

  [[noreturn]] void fail_out_of_memory(size_t request, const char* remedy) {
    fail<OutOfMemory>(
        "host memory: no room for a block of {} ({} bytes). In use: {}; cached: {}; cap: {}. Use a "
        "smaller batch, release tensors, or, {}",
        human(static_cast<int64_t>(request)), request, human(stats_.reserved_bytes - cached_),
        human(cached_), human(cap_), remedy);
  }

  std::mutex mutex_;
  // Large blocks only, but for reserved_bytes, system_allocations and the peaks.
  cpu::MemoryStats stats_;
  int64_t small_allocated_ = 0;  // small blocks in use when last looked at
  int64_t cached_ = 0;
  int64_t most_live_ = 0;
  int64_t cap_;
  uint64_t clock_ = 0;
  std::array<std::vector<CachedBlock>, kClasses> caches_;
  std::array<int, kLoopClasses> used_in_loops_{};  // on all threads
  std::vector<void*> slabs_;  // keeps them reachable, so that leak checkers look inside
  int64_t stocked_slabs_ = 0;
};

/// What `allocate` returns, called again as long as it finds no memory but somebody gives some
/// back.
template <class Allocate>
void* insist(const Allocate& allocate) {
  while (true) {
    const std::uint64_t times = times_memory_came_back();
    try {
      return allocate();
    } catch (const OutOfMemory&) {
      if (!reclaim_memory(times)) throw;
    }
  }
}

}  // namespace

void* large_allocate(size_t bytes) {
  return insist([bytes] { return HostAllocator::instance().allocate(bytes); });
}

void large_free(void* block, size_t bytes) noexcept {
  HostAllocator::instance().free(block, bytes);
}

void* loop_allocate(size_t bytes) {
  const int threads = get_num_threads();
  return insist([=] { return HostAllocator::instance().allocate(bytes, threads); });
}

void loop_free(void* block, size_t bytes) noexcept {
  HostAllocator::instance().free(block, bytes, true);
}

void* allocate_slab() {
  return insist([] { return HostAllocator::instance().allocate_slab(); });
}

void* stock_slab() noexcept { return HostAllocator::instance().stock_slab(); }

}  // namespace detail

int64_t host_memory_cap() { return detail::HostAllocator::instance().cap(); }

void set_host_memory_cap(int64_t bytes) { detail::HostAllocator::instance().set_cap(bytes); }

namespace cpu {

MemoryStats memory_stats() { return detail::HostAllocator::instance().stats(); }
int64_t memory_allocated() { return memory_stats().allocated_bytes; }
int64_t memory_reserved() { return memory_stats().reserved_bytes; }
int64_t max_memory_allocated() { return memory_stats().peak_allocated_bytes; }
void reset_peak_memory_stats() { detail::HostAllocator::instance().reset_peaks(); }
void empty_cache() { detail::HostAllocator::instance().empty_cache(); }

}  // namespace cpu
}  // namespace facula
