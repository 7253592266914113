#include "io/bounded.h"

#include <array>
#include <limits>

#include "test_files.h"

namespace facula::io {
namespace {

constexpr std::array<uint8_t, 8> kBytes = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

TEST(BoundedReader, BothByteOrders) {
  const auto reader = [] { return BoundedReader(kBytes, "f"); };
  EXPECT_EQ(reader().u8("x"), 0x01u);
  EXPECT_EQ(reader().u16_be("x"), 0x0123u);
  EXPECT_EQ(reader().u16_le("x"), 0x2301u);
  EXPECT_EQ(reader().u32_be("x"), 0x01234567u);
  EXPECT_EQ(reader().u32_le("x"), 0x67452301u);
  EXPECT_EQ(reader().u64_be("x"), 0x0123456789abcdefu);
  EXPECT_EQ(reader().u64_le("x"), 0xefcdab8967452301u);
}

TEST(BoundedReader, Advances) {
  BoundedReader reader(kBytes, "f");
  reader.skip(1, "x");
  EXPECT_EQ(reader.u16_be("x"), 0x2345u);
  EXPECT_EQ(reader.offset(), 3u);
  EXPECT_EQ(reader.take(5, "x").back(), 0xefu);
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_TRUE(reader.take(0, "x").empty());
}

TEST(BoundedReader, ReadsAnywhereWithoutMoving) {
  BoundedReader reader(kBytes, "f");
  EXPECT_EQ(reader.at(6, 2, "x")[0], 0xcdu);
  EXPECT_TRUE(reader.at(8, 0, "x").empty());
  EXPECT_EQ(reader.offset(), 0u);
}

TEST(BoundedReader, RefusesWhatDoesNotFit) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  BoundedReader reader(kBytes, "file.bin");
  reader.skip(6, "x");
  expect_error([&] { reader.u32_le("the magic number"); },
               {"file.bin", "the magic number", "offset 6", "takes 4 bytes", "2 are there"});
  EXPECT_EQ(reader.offset(), 6u);
  EXPECT_THROW(reader.take(kMax, "x"), IoError);
  EXPECT_THROW(reader.skip(kMax - 3, "x"), IoError);  // 6 + (2^64 - 4) wraps round to 2.
  EXPECT_THROW(reader.at(9, 0, "x"), IoError);
  EXPECT_THROW(reader.at(kMax, 2, "x"), IoError);
  EXPECT_THROW(BoundedReader({}, "f").u8("x"), IoError);
}

}  // namespace
}  // namespace facula::io
