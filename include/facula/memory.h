// What Facula's host memory allocator holds, and how to make it give memory back.
#pragma once

#include <cstdint>

#include <facula/export.h>

namespace facula::cpu {

/// Statistics of host memory; sizes are in bytes, after rounding up to the allocator's size
/// classes.
struct MemoryStats {
  int64_t allocated_bytes = 0;       ///< in use by tensors and other objects now
  int64_t reserved_bytes = 0;        ///< obtained from the system: in use or cached for reuse
  int64_t peak_allocated_bytes = 0;  ///< since the start or the last reset; blocks of up to 4096
                                     ///< bytes enter it when pools grow and at queries only
  int64_t peak_reserved_bytes = 0;   ///< since the start or the last reset
  int64_t allocations = 0;           ///< blocks handed out
  int64_t cache_hits = 0;            ///< of these, served without asking the system
  int64_t system_allocations = 0;    ///< requests made to the system
};

/// All statistics; takes locks, so not for inner loops.
FACULA_API MemoryStats memory_stats();
/// Bytes in use now.
FACULA_API int64_t memory_allocated();
/// Bytes obtained from the system, cached ones included.
FACULA_API int64_t memory_reserved();
/// Peak of memory_allocated() since the start or the last reset_peak_memory_stats().
FACULA_API int64_t max_memory_allocated();
/// Lets both peaks start again from the present values.
FACULA_API void reset_peak_memory_stats();
/// Copies that view() has made since the start, of tensors that are channels_last.
FACULA_API int64_t view_copies();
/// Returns every cached block of more than 4096 bytes to the system. What the allocator holds, in
/// use and cached, is limited to 80 % of the memory that the process may use, or to the environment
/// variable FACULA_HOST_MEMORY_CAP, in MiB: near that it gives cached blocks back by itself, and
/// beyond throws OutOfMemory.
FACULA_API void empty_cache();

}  // namespace facula::cpu
