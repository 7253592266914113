#include "io/crc32.h"

#include <zlib.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace facula::io {
namespace {

uint32_t crc32_by_table(uint32_t crc, std::span<const uint8_t> bytes) {
  return static_cast<uint32_t>(::crc32_z(crc, bytes.data(), bytes.size()));
}

#ifdef __x86_64__

constexpr size_t kVector = 16;

/// x^exponent modulo the polynomial of CRC-32, bits reflected, doubled as products of reflected
/// numbers need it.
constexpr int64_t power_of_x(int exponent) {
  uint32_t power = 0x80000000;
  for (int i = 0; i < exponent; ++i) power = power >> 1 ^ (power & 1 ? 0xedb88320 : 0);
  return int64_t{power} << 1;
}

/// A polynomial congruent to `value` followed by `kBits` bits, the last 128 of which are `next`.
template <int kBits>
[[gnu::target("pclmul")]] __m128i fold(__m128i value, __m128i next) {
  constexpr int64_t kLow = power_of_x(kBits + 32), kHigh = power_of_x(kBits - 32);
  const __m128i powers = _mm_set_epi64x(kHigh, kLow);
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(value, powers, 0x00),
                                     _mm_clmulepi64_si128(value, powers, 0x11)),
                       next);
}

/// Multiplies without carry: 64 bytes become 16 with the same remainder, until only those are left.
[[gnu::target("pclmul")]] uint32_t crc32_by_folding(uint32_t crc, std::span<const uint8_t> bytes) {
  constexpr size_t kLanes = 4, kBlock = kLanes * kVector;
  const auto load = [&](size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data()) + i);
  };
  __m128i lanes[kLanes] = {load(0), load(1), load(2), load(3)};
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(~crc)));
  for (bytes = bytes.subspan(kBlock); bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = fold<8 * kBlock>(lanes[i], load(i));
  }
  __m128i rest = lanes[0];
  for (size_t i = 1; i < kLanes; ++i) rest = fold<8 * kVector>(rest, lanes[i]);
  // zlib's register begins with the complement of what it is given: here with zero.
  const uint32_t folded =
      crc32_by_table(0xffffffff, {reinterpret_cast<const uint8_t*>(&rest), kVector});
  return crc32_by_table(folded, bytes);
}

#endif

}  // namespace

uint32_t crc32(uint32_t crc, std::span<const uint8_t> bytes) {
#ifdef __x86_64__
  constexpr size_t kFew = 256;  // not worth it
  static const bool multiplies_polynomials = __builtin_cpu_supports("pclmul");
  if (bytes.size() >= kFew && multiplies_polynomials) return crc32_by_folding(crc, bytes);
#endif
  return crc32_by_table(crc, bytes);
}

}  // namespace facula::io
