#include "io/arrays/idx.h"

#include <zlib.h>

#include <numeric>

#include "test_files.h"

namespace facula::io {
namespace {

using Bytes = std::vector<uint8_t>;

const Bytes kImages = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 10, 11, 12, 13, 14, 15};

TEST(Idx, ReadsDimensionsAndBytes) {
  const auto images = parse_idx(kImages, "f");
  EXPECT_EQ(images.dims, (std::vector<int64_t>{2, 1, 3}));
  EXPECT_EQ(images.bytes, (Bytes{10, 11, 12, 13, 14, 15}));
  const auto labels = parse_idx(Bytes{0, 0, 8, 1, 0, 0, 0, 2, 7, 9}, "f");
  EXPECT_EQ(labels.dims, (std::vector<int64_t>{2}));
  EXPECT_EQ(labels.bytes, (Bytes{7, 9}));
  EXPECT_TRUE(parse_idx(Bytes{0, 0, 8, 1, 0, 0, 0, 0}, "f").bytes.empty());
}

TEST(Idx, TruncatedAtEveryByteAndTooLong) {
  for (size_t size = 0; size < kImages.size(); ++size) {
    const Bytes part(kImages.begin(), kImages.begin() + static_cast<ptrdiff_t>(size));
    expect_error([&] { parse_idx(part, "cut.idx"); }, {"cut.idx", "truncated or damaged"});
  }
  Bytes longer = kImages;
  longer.push_back(0);
  expect_error([&] { parse_idx(longer, "f"); }, {"[2, 1, 3]", "7 bytes"});
}

TEST(Idx, RefusesOtherTypesAndRanks) {
  const auto with = [](size_t index, uint8_t value) {
    Bytes bytes = kImages;
    bytes[index] = value;
    return bytes;
  };
  expect_error([&] { parse_idx(with(0, 1), "f"); }, {"0x01000803", "not an IDX file"});
  expect_error([&] { parse_idx(with(2, 0x0d), "f"); }, {"0x00000d03", "not an IDX file"});
  expect_error([&] { parse_idx(with(3, 0), "f"); }, {"rank 0", "1 to 3"});
  expect_error([&] { parse_idx(with(3, 4), "f"); }, {"rank 4"});
}

TEST(Idx, HugeDimensionsAllocateNothing) {
  Bytes bytes = kImages;
  std::fill(bytes.begin() + 4, bytes.begin() + 16, 0xff);
  expect_error([&] { parse_idx(bytes, "f"); }, {"4294967295, 4294967295, 4294967295"});
  // 2^22 * 2^21 * 2^21 is 2^64, which wraps round to zero bytes.
  bytes = {0, 0, 8, 3, 0, 0x40, 0, 0, 0, 0x20, 0, 0, 0, 0x20, 0, 0};
  EXPECT_THROW(parse_idx(bytes, "f"), IoError);
}

TEST(Idx, NoMoreIsDecompressedThanTheDimensionsSay) {
  const TempFolder folder;
  const std::string path = folder / "bomb.gz";
  Bytes bytes = kImages;
  bytes.resize(1 << 20);
  gzFile file = gzopen(path.c_str(), "wb9");
  EXPECT_EQ(gzwrite(file, bytes.data(), 1 << 20), 1 << 20);
  EXPECT_EQ(gzclose(file), Z_OK);
  expect_error([&] { read_idx(path); }, {path, "[2, 1, 3] do not match the 7 bytes"});
}

TEST(Idx, FashionMnist) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs the package dataset-fashion-mnist";
  const auto images = read_idx(folder + "t10k-images-idx3-ubyte.gz");
  EXPECT_EQ(images.dims, (std::vector<int64_t>{10000, 28, 28}));
  const auto labels = read_idx(folder + "t10k-labels-idx1-ubyte.gz", 10'008);
  EXPECT_EQ(std::accumulate(labels.bytes.begin(), labels.bytes.end(), 0), 45'000);
  expect_error([&] { read_idx(folder + "t10k-labels-idx1-ubyte.gz", 10'007); }, {"10007"});
}

TEST(Idx, Mnist) {
  FACULA_REQUIRE_SHARED_DATA(path, "mnist/train-labels-idx1-ubyte.gz");
  const auto labels = read_idx(path);
  EXPECT_EQ(labels.dims, (std::vector<int64_t>{60000}));
  EXPECT_EQ(Bytes(labels.bytes.begin(), labels.bytes.begin() + 5), (Bytes{5, 0, 4, 1, 9}));
}

}  // namespace
}  // namespace facula::io
