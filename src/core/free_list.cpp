#include "core/free_list.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "core/host_allocator.h"

namespace facula {
namespace detail {

[[gnu::tls_model("initial-exec")]] thread_local constinit FreeList free_lists[kSmallClasses];

namespace {

// After the guard of this thread has run, blocks bypass its lists.
[[gnu::tls_model("initial-exec")]] thread_local constinit bool thread_ended = false;

constexpr uint64_t blocks_per_magazine(int size_class) {
  return kMagazineBytes / small_class_bytes(size_class);
}

/// Access to the links in a free block, which is poisoned otherwise.
template <class Use>
auto with_links(FreeBlock* block, Use use) {
  unpoison(block, sizeof(FreeBlock));
  auto result = use(*block);
  poison(block, sizeof(FreeBlock));
  return result;
}

FreeBlock* set_next(FreeBlock* block, FreeBlock* next) {
  return with_links(block, [=](FreeBlock& links) {
    links.next = next;
    return block;
  });
}

FreeBlock* next_of(FreeBlock* block) {
  return with_links(block, [](FreeBlock& links) { return links.next; });
}

struct Magazine {
  FreeBlock* head = nullptr;
  uint64_t count = 0;
};

Magazine carve(void* memory, int size_class) {
  auto* slab = static_cast<std::byte*>(memory);
  poison(slab, kMagazineBytes);
  const size_t size = small_class_bytes(size_class);
  Magazine magazine;
  for (size_t offset = kMagazineBytes; offset != 0; offset -= size) {
    magazine.head = set_next(reinterpret_cast<FreeBlock*>(slab + offset - size), magazine.head);
    ++magazine.count;
  }
  return magazine;
}

/// Magazines that no thread owns, and the books of all threads. Every change of ownership is
/// entered under the mutex together with the thread's counters, so that sums are consistent.
class SharedPool {
 public:
  /// Never destroyed: static objects may free blocks to the very end.
  static SharedPool& instance() {
    static SharedPool* const pool = new SharedPool;
    return *pool;
  }

  void before_fork() { mutex_.lock(); }
  void after_fork_in_parent() { mutex_.unlock(); }
  /// The other threads do not exist in the child, nor does their thread-local storage for long.
  /// Their free blocks are lost, because a list may have been caught in the middle of a change.
  void after_fork_in_child() {
    for (int c = 0; c < kSmallClasses; ++c) {
      for (const FreeList* lists : threads_) {
        if (lists == free_lists) continue;
        classes_[c].popped_by_ended_threads += lists[c].popped.load();
        classes_[c].lost += lists[c].pushed.load() - lists[c].popped.load();
      }
    }
    std::erase_if(threads_, [](const FreeList* lists) { return lists != free_lists; });
    mutex_.unlock();
  }

  void add_thread(FreeList* lists) {
    const std::lock_guard lock(mutex_);
    threads_.push_back(lists);
  }

  void remove_thread(FreeList* lists) {
    const std::lock_guard lock(mutex_);
    for (int c = 0; c < kSmallClasses; ++c) {
      FreeList& list = lists[c];
      const uint64_t spare = list.spare != nullptr ? blocks_per_magazine(c) : 0;
      const uint64_t active = list.pushed.load() - list.popped.load() - spare;
      if (spare != 0) put({list.spare, spare}, c);
      if (active != 0) put({list.head, active}, c);
      classes_[c].popped_by_ended_threads += list.popped.load();
      list.head = list.spare = nullptr;
      list.pushed.store(0);
      list.popped.store(0);
      list.capacity = 0;
    }
    threads_.erase(std::find(threads_.begin(), threads_.end(), lists));
  }

  /// Moves a magazine into the empty `list`.
  void fetch(FreeList& list, int size_class) {
    if (!fetch(list, size_class, nullptr)) fetch(list, size_class, allocate_slab());
  }
  /// The same, if there is one or memory that nobody else has.
  bool try_fetch(FreeList& list, int size_class) noexcept {
    if (fetch(list, size_class, nullptr)) return true;
    void* slab = stock_slab();
    return slab && fetch(list, size_class, slab);
  }

  /// Takes the spare magazine of `list`.
  void take_spare(FreeList& list, int size_class) {
    const uint64_t count = blocks_per_magazine(size_class);
    const std::lock_guard lock(mutex_);
    put({list.spare, count}, size_class);
    list.spare = nullptr;
    add_relaxed(list.pushed, -count);
  }

  /// For threads that have no lists any more.
  FreeBlock* allocate_one(int size_class) {
    FreeList list;
    fetch(list, size_class);
    FreeBlock* block = list.head;
    const std::lock_guard lock(mutex_);
    ++classes_[size_class].popped_by_ended_threads;
    const uint64_t rest = list.pushed.load() - 1;
    if (rest != 0) put({next_of(block), rest}, size_class);
    return block;
  }
  void free_one(FreeBlock* block, int size_class) {
    const std::lock_guard lock(mutex_);
    put({set_next(block, nullptr), 1}, size_class);
  }

  SmallBlockStats stats() {
    SmallBlockStats stats;
    const std::lock_guard lock(mutex_);
    for (int c = 0; c < kSmallClasses; ++c) {
      const Class& shared = classes_[c];
      uint64_t popped = shared.popped_by_ended_threads;
      uint64_t free = shared.free + shared.lost;
      for (const FreeList* lists : threads_) {
        const uint64_t list_popped = lists[c].popped.load(std::memory_order_relaxed);
        popped += list_popped;
        free += lists[c].pushed.load(std::memory_order_relaxed) - list_popped;
      }
      // A block on its way between two threads may be seen in neither or both.
      const auto used = std::max<int64_t>(0, static_cast<int64_t>(shared.carved - free));
      stats.allocated_bytes += used * static_cast<int64_t>(small_class_bytes(c));
      stats.allocations += static_cast<int64_t>(popped);
    }
    return stats;
  }

 private:
  struct Class {
    FreeBlock* magazines = nullptr;
    uint64_t free = 0;    // blocks in `magazines`
    uint64_t carved = 0;  // blocks that exist
    uint64_t lost = 0;    // free blocks of threads that a fork() ended
    uint64_t popped_by_ended_threads = 0;
  };

  /// Takes a magazine from here, or makes one of `slab` unless that is null.
  bool fetch(FreeList& list, int size_class, void* slab) {
    const Magazine carved = slab ? carve(slab, size_class) : Magazine();
    const std::lock_guard lock(mutex_);
    classes_[size_class].carved += carved.count;
    const Magazine magazine = slab ? carved : get(size_class);
    list.head = magazine.head;
    add_relaxed(list.pushed, magazine.count);
    return magazine.count > 0;
  }

  void put(Magazine magazine, int size_class) {
    Class& shared = classes_[size_class];
    shared.magazines = with_links(magazine.head, [&](FreeBlock& links) {
      links.next_magazine = shared.magazines;
      links.count = magazine.count;
      return magazine.head;
    });
    shared.free += magazine.count;
  }

  Magazine get(int size_class) {
    Class& shared = classes_[size_class];
    if (shared.magazines == nullptr) return {};
    return with_links(shared.magazines, [&](FreeBlock& links) {
      const Magazine magazine{shared.magazines, links.count};
      shared.magazines = links.next_magazine;
      shared.free -= links.count;
      return magazine;
    });
  }

  std::mutex mutex_;
  std::array<Class, kSmallClasses> classes_;
  std::vector<FreeList*> threads_;
};

/// Brings a thread's blocks back when it ends.
struct ThreadGuard {
  ThreadGuard() { SharedPool::instance().add_thread(free_lists); }
  ~ThreadGuard() {
    SharedPool::instance().remove_thread(free_lists);
    thread_ended = true;
  }
};

/// False if the thread is at its end, or cannot have lists for lack of memory.
bool enter_thread() noexcept {
  if (thread_ended) return false;
  try {
    thread_local const ThreadGuard guard;  // NOLINT(*-exit-time-destructors): what it is for
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

/// Gives a thread a magazine of each size that it has not used, if memory is to be had. For threads
/// of loops, which may come to need one, and its pages, only after a thousand steps.
void stock() noexcept {
  for (int c = 0; c < kSmallClasses; ++c) {
    FreeList& list = free_lists[c];
    if (list.capacity != 0) continue;
    if (!SharedPool::instance().try_fetch(list, c)) return;
    list.capacity = blocks_per_magazine(c);
  }
}

}  // namespace

FreeBlock* refill(int size_class) {
  FreeList& list = free_lists[size_class];
  const bool first = list.capacity == 0;
  if (first && !enter_thread()) return SharedPool::instance().allocate_one(size_class);
  list.capacity = blocks_per_magazine(size_class);
  if (list.spare != nullptr) {
    list.head = std::exchange(list.spare, nullptr);
  } else {
    SharedPool::instance().fetch(list, size_class);
  }
  FreeBlock* block = list.head;
  list.head = next_of(block);
  add_relaxed(list.popped, 1);
  if (first && base::in_parallel_region()) stock();
  return block;
}

void spill(int size_class, FreeBlock* block) noexcept {
  FreeList& list = free_lists[size_class];
  poison(block, small_class_bytes(size_class));
  const uint64_t magazine = blocks_per_magazine(size_class);
  if (list.capacity == 0) {
    if (!enter_thread()) return SharedPool::instance().free_one(block, size_class);
    if (base::in_parallel_region()) stock();
    if (list.capacity == 0) list.capacity = magazine;
  }
  if (list.pushed.load() - list.popped.load() >= list.capacity) {
    if (list.spare != nullptr) SharedPool::instance().take_spare(list, size_class);
    list.spare = std::exchange(list.head, nullptr);
    list.capacity = 2 * magazine;
  }
  list.head = set_next(block, list.head);
  add_relaxed(list.pushed, 1);
}

void small_blocks_before_fork() { SharedPool::instance().before_fork(); }
void small_blocks_after_fork_in_parent() { SharedPool::instance().after_fork_in_parent(); }
void small_blocks_after_fork_in_child() { SharedPool::instance().after_fork_in_child(); }

}  // namespace detail

SmallBlockStats small_block_stats() { return detail::SharedPool::instance().stats(); }

}  // namespace facula
