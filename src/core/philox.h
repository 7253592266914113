// The counter-based random generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). A block is a pure function of its key and its counter, so
// any thread or device can compute any part of a stream. The header is also compiled by nvcc.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define FACULA_PHILOX_FN __host__ __device__
#else
#define FACULA_PHILOX_FN
#endif

namespace facula {

/// Four 32-bit words: a counter, or the random block that belongs to it.
struct PhiloxBlock {
  std::uint32_t word[4];
};

/// The block of `counter` in the stream with the given key.
FACULA_PHILOX_FN constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint64_t key) {
  constexpr std::uint32_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;
  constexpr std::uint32_t kWeyl0 = 0x9e3779b9, kWeyl1 = 0xbb67ae85;
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// The same with a counter of two 64-bit halves; `low` occupies words 0 and 1.
FACULA_PHILOX_FN constexpr PhiloxBlock philox4x32(std::uint64_t low, std::uint64_t high,
                                                  std::uint64_t key) {
  return philox4x32(
      PhiloxBlock{{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                   static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}},
      key);
}

}  // namespace facula

#undef FACULA_PHILOX_FN
