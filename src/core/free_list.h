// Thread-local free lists for small blocks: tensor handles, tape nodes, small tensors.
//
// A thread owns two magazines (linked lists of free blocks, 64 KiB at most) per size class and
// usually works on one of them alone: a few instructions, no lock, no shared counter. An empty or
// full pair exchanges one whole magazine with a pool shared by all threads, in constant time. Hence
// a block may be freed by another thread than its allocator without any list growing beyond bounds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <facula/export.h>

#if defined(__SANITIZE_ADDRESS__)
#define FACULA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FACULA_ASAN 1
#endif
#endif
#ifdef FACULA_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace facula {

/// Largest request, in bytes, that small_allocate serves.
inline constexpr size_t kSmallBlockLimit = 4096;

namespace detail {

inline constexpr int kSmallClasses = 7;  // 64, 128, ... 4096 bytes
inline constexpr size_t kMagazineBytes = 64 * 1024;

struct FreeBlock {
  FreeBlock* next;
  FreeBlock* next_magazine;  // these two are used in a magazine's first block while it is shared
  uint64_t count;
};

/// The free blocks of one size class in one thread. Only the owner writes; others read the two
/// counters for statistics. So the counters are atomic, but never updated by a locked instruction.
struct FreeList {
  FreeBlock* head = nullptr;
  FreeBlock* spare = nullptr;       // the second magazine: full, or absent
  std::atomic<uint64_t> popped{0};  // blocks handed out
  std::atomic<uint64_t> pushed{0};  // blocks that came in; pushed - popped are here, spare included
  uint64_t capacity = 0;  // of the magazines present; 0 before first use and after the end
};

[[gnu::tls_model(
    "initial-exec")]] extern FACULA_API thread_local constinit FreeList free_lists[kSmallClasses];

/// Called with an empty list: fetches a magazine and returns a block. Throws OutOfMemory.
FACULA_API FreeBlock* refill(int size_class);
/// Called with a full list: makes room and adds the block.
FACULA_API void spill(int size_class, FreeBlock* block) noexcept;

// Called around fork() by the host allocator, whose mutex comes before the small blocks' one.
void small_blocks_before_fork();
void small_blocks_after_fork_in_parent();
void small_blocks_after_fork_in_child();

inline void add_relaxed(std::atomic<uint64_t>& counter, uint64_t delta) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + delta, std::memory_order_relaxed);
}

constexpr int small_class(size_t bytes) noexcept {
  return bytes <= 64 ? 0 : 64 - __builtin_clzll((bytes - 1) >> 6);
}

constexpr size_t small_class_bytes(int size_class) noexcept { return size_t{64} << size_class; }

// A block is open to its owner for the bytes requested; while free, AddressSanitizer reports any
// use.
inline void poison([[maybe_unused]] void* p, [[maybe_unused]] size_t bytes) noexcept {
#ifdef FACULA_ASAN
  ASAN_POISON_MEMORY_REGION(p, bytes);
#endif
}
inline void unpoison([[maybe_unused]] void* p, [[maybe_unused]] size_t bytes) noexcept {
#ifdef FACULA_ASAN
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
#endif
}

}  // namespace detail

/// Uninitialised memory for at most kSmallBlockLimit bytes, aligned to 64. Throws OutOfMemory.
inline void* small_allocate(size_t bytes) {
  const int size_class = detail::small_class(bytes);
  detail::FreeList& list = detail::free_lists[size_class];
  detail::FreeBlock* block = list.head;
  if (block == nullptr) [[unlikely]] {
    block = detail::refill(size_class);
  } else {
    detail::unpoison(block, sizeof(detail::FreeBlock));
    list.head = block->next;
    // The next call reads its link, and its user writes to its first lines.
    __builtin_prefetch(list.head, 1);
    if (bytes > 64) __builtin_prefetch(reinterpret_cast<char*>(list.head) + 64, 1);
    if (bytes > 128) __builtin_prefetch(reinterpret_cast<char*>(list.head) + 128, 1);
    detail::add_relaxed(list.popped, 1);
    detail::poison(block, sizeof(detail::FreeBlock));
  }
  detail::unpoison(block, bytes);
  return block;
}

/// Returns a block of small_allocate; `bytes` must be the size it was requested with.
inline void small_free(void* memory, size_t bytes) noexcept {
  const int size_class = detail::small_class(bytes);
  detail::FreeList& list = detail::free_lists[size_class];
  auto* block = static_cast<detail::FreeBlock*>(memory);
  const uint64_t pushed = list.pushed.load(std::memory_order_relaxed);
  if (pushed - list.popped.load(std::memory_order_relaxed) >= list.capacity) [[unlikely]] {
    return detail::spill(size_class, block);
  }
  detail::unpoison(block, sizeof(detail::FreeBlock));
  block->next = list.head;
  list.head = block;
  list.pushed.store(pushed + 1, std::memory_order_relaxed);
  detail::poison(block, detail::small_class_bytes(size_class));
}

/// Sums over all threads, of small blocks; exact while no other thread allocates or frees.
struct SmallBlockStats {
  int64_t allocated_bytes = 0;
  int64_t allocations = 0;
};
FACULA_API SmallBlockStats small_block_stats();

}  // namespace facula
