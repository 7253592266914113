// Copying what is too large for the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace facula::io {

/// memcpy past the caches: ordinary stores first read the line they change, which costs a third of
/// the bandwidth. The C library does so too, but only from sizes on that it derives from the caches
/// of the whole machine, and never in system calls.
inline void streamed_copy(void* to_bytes, const void* from_bytes, std::size_t bytes) {
  auto* to = static_cast<char*>(to_bytes);
  const auto* from = static_cast<const char*>(from_bytes);
#ifdef __x86_64__
  constexpr std::size_t kLine = 64, kVector = 16, kAhead = 2048;
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % kLine;
  if (bytes >= kLine + head) {
    std::memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= kLine; to += kLine, from += kLine, bytes -= kLine) {
      __builtin_prefetch(from + kAhead);  // harmless beyond the end
      for (std::size_t at = 0; at < kLine; at += kVector) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
      }
    }
    _mm_sfence();  // other threads see the rest only after this
  }
#endif
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace facula::io
