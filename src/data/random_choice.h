// The random choices of the input pipeline: pure functions of seeds and indices.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "core/philox.h"

namespace facula::data {

/// What random numbers are for. It is part of the counter, so that no two purposes share numbers.
/// Those with 0 are a generator's of the same seed.
enum class Purpose : std::uint8_t { augment = 1, split, weighted, position, batch, shuffle };

/// Epochs are below 2^32, draws below 2^24.
inline std::uint64_t random_stream(Purpose purpose, std::int64_t epoch) {
  return (static_cast<std::uint64_t>(epoch) & 0xffffffffu) |
         static_cast<std::uint64_t>(static_cast<std::uint8_t>(purpose)) << 56;
}

/// The random block number `index` of an epoch.
inline PhiloxBlock random_block(std::uint64_t seed, Purpose purpose, std::int64_t epoch,
                                std::int64_t index) {
  return philox4x32(static_cast<std::uint64_t>(index), random_stream(purpose, epoch), seed);
}

/// Maps random bits to [0, bound) by multiplication; the bias is below bound / 2^32.
inline std::int64_t below(std::int64_t bound, std::uint32_t bits) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(bound) * bits >> 32);
}

/// A random order of 0 ... count - 1 (Fisher and Yates).
inline std::vector<std::int64_t> permutation(std::int64_t count, std::uint64_t seed,
                                             Purpose purpose, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t i = count - 1; i > 0; --i) {
    const std::int64_t j = below(i + 1, random_block(seed, purpose, epoch, i).word[0]);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(j)]);
  }
  return order;
}

}  // namespace facula::data
