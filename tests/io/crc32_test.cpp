#include "io/crc32.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string_view>
#include <vector>

namespace facula::io {
namespace {

TEST(Crc32, IsTheUsualOne) {
  constexpr std::string_view kDigits = "123456789";
  const auto* bytes = reinterpret_cast<const uint8_t*>(kDigits.data());
  EXPECT_EQ(crc32(0, {bytes, kDigits.size()}), 0xcbf43926);
}

TEST(Crc32, EqualsZlibForEverySizeAndBeginning) {
  constexpr size_t kMost = 1500, kOffsets = 20;
  std::mt19937 random(1);
  std::vector<uint8_t> bytes(kMost + kOffsets);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (size_t size = 0; size <= kMost; ++size) {
    const uint8_t* begin = bytes.data() + size % kOffsets;
    for (const uint32_t before : {0u, 0xffffffffu, 0x12345678u}) {
      EXPECT_EQ(crc32(before, {begin, size}), ::crc32_z(before, begin, size)) << size;
    }
  }
}

}  // namespace
}  // namespace facula::io
