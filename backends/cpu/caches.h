// What ops may expect of the caches.
#pragma once

#include <cstdint>

namespace facula::cpu {

inline constexpr std::int64_t kLineBytes = 64;  ///< of a line of the caches

/// Whether the last-level cache is far away and the second level large, as in servers of Intel
/// since 2023: a core reads 16 GB/s from there, and more only of what it has asked for long before.
/// No bit of a result depends on it. Setting it is for tests.
bool far_last_level();
void far_last_level(bool far);

/// The most bytes of a result that are better written to the caches. Setting it is for tests.
std::int64_t most_cached_bytes();
void most_cached_bytes(std::int64_t bytes);

/// The most bytes that loops find near enough.
std::int64_t most_near_bytes();

/// Whether loops over so many bytes had better ask ahead for them. Processors foresee what comes in
/// order; where the last level is far away they do not foresee enough, elsewhere asking costs.
bool worth_asking(std::int64_t bytes);

/// Asks for what comes after these bytes: early into the second-level cache, later into the first.
inline void ask_ahead(const void* bytes, std::int64_t count) {
  for (std::int64_t k = 0; k < count; k += kLineBytes) {
    const char* line = static_cast<const char*>(bytes) + k;
    __builtin_prefetch(line + 8192, 0, 2);
    __builtin_prefetch(line + 2048);
  }
}

}  // namespace facula::cpu
