// Stores past the caches.
//
// Ordinary stores first read the line they change. Where a result is too large to stay in the
// caches anyhow, storing past them saves a third to half of the traffic; below, the next op finds
// it there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/cpu_info.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace facula::cpu {

/// How much to compute between calls of stream(). Longer bursts of such stores fill the queues and
/// hold up the loads of the next piece, which halves the speed from 1 KiB on.
constexpr int kStreamBufferBytes = 512;

#ifdef __x86_64__
/// True if a result of so many bytes is better written past the caches.
inline bool worth_streaming(std::int64_t bytes) {
  return bytes > std::max<std::int64_t>(base::cache_sizes().l3, 8 << 20);
}

inline void stream(void* to_bytes, const void* from_bytes, std::int64_t bytes) {
  auto* to = static_cast<char*>(to_bytes);
  const auto* from = static_cast<const char*>(from_bytes);
  constexpr std::int64_t kLine = 64;
  const std::int64_t head =
      std::min(bytes, static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(to) % kLine));
  std::memcpy(to, from, static_cast<std::size_t>(head));
  std::int64_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    for (std::int64_t part = at; part < at + kLine; part += 16) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + part), value);
    }
  }
  std::memcpy(to + at, from + at, static_cast<std::size_t>(bytes - at));
}

/// Makes streamed data visible to other threads.
inline void finish_streaming() { _mm_sfence(); }
#else
inline bool worth_streaming(std::int64_t) { return false; }
inline void stream(void* to, const void* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
inline void finish_streaming() {}
#endif

}  // namespace facula::cpu
