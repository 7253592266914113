#include "backends/cpu/kernels/stream.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#else
#include <cstring>
#endif

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr std::int64_t kLine = 64;

inline void copy_line(char* to, const char* from) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif defined(__AVX2__)
  for (int part = 0; part < kLine; part += 32) {
    const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + part));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + part), value);
  }
#elif defined(__SSE2__)
  for (int part = 0; part < kLine; part += 16) {
    const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + part), value);
  }
#else
  std::memcpy(to, from, kLine);
#endif
}

void copy_lines(char* to, const char* from, std::int64_t count) {
  for (std::int64_t at = 0; at < count * kLine; at += kLine) copy_line(to + at, from + at);
}

}  // namespace

extern const StreamKernels stream_kernels = {copy_lines};

}  // namespace facula::cpu::FACULA_ISA
