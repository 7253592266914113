// Stores of whole cache lines past the caches. Included by kernel translation units only.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#else
#include <cstring>
#endif

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr std::int64_t kLineBytes = 64;

/// Copies a line with the widest stores of the instruction set; `to` must be aligned to a line.
[[gnu::always_inline]] inline void stream_line(void* to_line, const void* from_line) {
  char* to = static_cast<char*>(to_line);
  const char* from = static_cast<const char*>(from_line);
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif defined(__AVX2__)
  for (int part = 0; part < kLineBytes; part += 32) {
    const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + part));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + part), value);
  }
#elif defined(__SSE2__)
  for (int part = 0; part < kLineBytes; part += 16) {
    const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + part), value);
  }
#else
  std::memcpy(to, from, kLineBytes);
#endif
}

}  // namespace
}  // namespace facula::cpu::FACULA_ISA
