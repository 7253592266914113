#include "core/philox.h"

#include <gtest/gtest.h>

namespace facula {
namespace {

void expect_words(const PhiloxBlock& block, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                  std::uint32_t d) {
  EXPECT_EQ(block.word[0], a);
  EXPECT_EQ(block.word[1], b);
  EXPECT_EQ(block.word[2], c);
  EXPECT_EQ(block.word[3], d);
}

// The known answers published with the Random123 library.
TEST(Philox, KnownAnswers) {
  expect_words(philox4x32({{0, 0, 0, 0}}, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  expect_words(philox4x32({{~0u, ~0u, ~0u, ~0u}}, ~std::uint64_t{0}), 0x408f276d, 0x41c83b0e,
               0xa20bc7c6, 0x6d5451fd);
  expect_words(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822),
               0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(Philox, HalvesOfTheCounter) {
  const PhiloxBlock whole = philox4x32({{1, 2, 3, 4}}, 5);
  const PhiloxBlock halves = philox4x32(0x2'0000'0001, 0x4'0000'0003, 5);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(whole.word[i], halves.word[i]);
}

}  // namespace
}  // namespace facula
