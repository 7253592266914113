// Stores past the caches.
//
// Ordinary stores first read the line they change. Where a result is too large to stay in the
// caches anyhow, storing past them saves a third to half of the traffic; below, the next op finds
// it there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/caches.h"
#include "backends/cpu/kernels/stream.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace facula::cpu {

inline bool begins_line(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % kLineBytes == 0;
}

/// How much to compute between calls of stream(). Longer bursts of such stores fill the queues and
/// hold up the loads of the next piece, which halves the speed from 1 KiB on.
constexpr int kStreamBufferBytes = 512;

#ifdef __x86_64__
/// True if a result of so many bytes is better written past the caches.
inline bool worth_streaming(std::int64_t bytes) { return bytes > most_cached_bytes(); }

/// The same of an op that reads and writes so many bytes in all. What is read drives the result out
/// as well; far away, that was worth little in any case.
inline bool worth_streaming(std::int64_t bytes, std::int64_t moved) {
  return worth_streaming(bytes) || (far_last_level() && worth_streaming(moved / 4));
}

/// Makes streamed data visible to other threads.
inline void finish_streaming() { _mm_sfence(); }
#else
inline bool worth_streaming(std::int64_t) { return false; }
inline bool worth_streaming(std::int64_t, std::int64_t) { return false; }
inline void finish_streaming() {}
#endif

/// Copies `bytes` from a buffer; visible to other threads after finish_streaming().
inline void stream(void* to_bytes, const void* from_bytes, std::int64_t bytes) {
  auto* to = static_cast<char*>(to_bytes);
  const auto* from = static_cast<const char*>(from_bytes);
  const std::int64_t head = std::min(
      bytes, static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(to) % kLineBytes));
  const std::int64_t lines = (bytes - head) / kLineBytes;
  const std::int64_t tail = head + lines * kLineBytes;
  std::memcpy(to, from, static_cast<std::size_t>(head));
  stream_kernels().lines(to + head, from + head, lines);
  std::memcpy(to + tail, from + tail, static_cast<std::size_t>(bytes - tail));
}

}  // namespace facula::cpu
