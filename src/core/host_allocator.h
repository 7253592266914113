// Caching allocator of host memory. Statistics are public: <facula/memory.h>.
#pragma once

#include <cstddef>
#include <cstdint>

#include <facula/export.h>
#include <facula/memory.h>

#include "base/thread_pool.h"
#include "core/free_list.h"

namespace facula {

namespace detail {
FACULA_API void* large_allocate(size_t bytes);
FACULA_API void large_free(void* block, size_t bytes) noexcept;
FACULA_API void* loop_allocate(size_t bytes);
FACULA_API void loop_free(void* block, size_t bytes) noexcept;
/// Small blocks come from lists of each thread's own.
inline bool shared_in_loop(size_t bytes) noexcept {
  return bytes > kSmallBlockLimit && base::in_parallel_region();
}

/// kMagazineBytes for the small blocks' pool, which never returns them.
void* allocate_slab();
/// The same for later, of memory that is neither cached for others nor beyond the cap. Null if
/// there is none.
void* stock_slab() noexcept;
}  // namespace detail

/// Uninitialised memory for `bytes` bytes (0 allowed), aligned to 64 bytes, from 2 MiB on to pages.
/// Throws OutOfMemory, or ValueError for a size beyond 2^63, that is a negative or overflowed one.
inline void* host_allocate(size_t bytes) {
  return bytes <= kSmallBlockLimit ? small_allocate(bytes) : detail::large_allocate(bytes);
}

/// Returns a block of host_allocate; `bytes` must be the size it was requested with. A null block
/// is ignored. Any thread may free.
inline void host_free(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
  bytes <= kSmallBlockLimit ? small_free(block, bytes) : detail::large_free(block, bytes);
}

/// Like host_allocate, for memory that the same scope frees. In a body of parallel_for all threads
/// may come to need such a block at the same time, perhaps for the first time after a thousand
/// steps: so the first one makes blocks for all, and later steps have no page faults.
inline void* scratch_allocate(size_t bytes) {
  return detail::shared_in_loop(bytes) ? detail::loop_allocate(bytes) : host_allocate(bytes);
}

/// Returns a block of scratch_allocate, on the thread that allocated it.
inline void scratch_free(void* block, size_t bytes) noexcept {
  detail::shared_in_loop(bytes) ? detail::loop_free(block, bytes) : host_free(block, bytes);
}

/// The most memory the allocator may hold, in bytes: FACULA_HOST_MEMORY_CAP (in MiB) or 80 % of the
/// memory this process may use.
FACULA_API int64_t host_memory_cap();
/// Changes the cap; blocks in use stay valid even if they exceed it.
FACULA_API void set_host_memory_cap(int64_t bytes);

}  // namespace facula
