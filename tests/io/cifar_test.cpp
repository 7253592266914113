#include "io/arrays/cifar.h"

#include <algorithm>

#include "test_files.h"

namespace facula::io {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kImage = 3072;

Bytes record(std::initializer_list<uint8_t> labels, uint8_t first_pixel) {
  Bytes bytes = labels;
  bytes.resize(labels.size() + kImage, 1);
  bytes[labels.size()] = first_pixel;
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Cifar, TakesCifar10Apart) {
  const auto records = parse_cifar(record({9}, 50) + record({0}, 60), CifarKind::kCifar10, "f");
  EXPECT_EQ(records.labels, (Bytes{9, 0}));
  EXPECT_TRUE(records.coarse_labels.empty());
  ASSERT_EQ(records.images.size(), 2 * kImage);
  EXPECT_EQ(records.images[0], 50);
  EXPECT_EQ(records.images[kImage], 60);
}

TEST(Cifar, TakesCifar100Apart) {
  const auto records =
      parse_cifar(record({19, 99}, 50) + record({0, 3}, 60), CifarKind::kCifar100, "f");
  EXPECT_EQ(records.labels, (Bytes{99, 3}));
  EXPECT_EQ(records.coarse_labels, (Bytes{19, 0}));
  EXPECT_EQ(records.images[kImage], 60);
}

TEST(Cifar, LabelsOutOfRange) {
  expect_error([] { parse_cifar(record({1}, 0) + record({10}, 0), CifarKind::kCifar10, "b.bin"); },
               {"b.bin", "record 1", "label 10", "0 to 9"});
  expect_error(
      [] {
        parse_cifar(record({20, 0}, 0), CifarKind::kCifar100, "f");
      },
      {"record 0", "coarse label 20", "0 to 19"});
  expect_error(
      [] {
        parse_cifar(record({0, 100}, 0), CifarKind::kCifar100, "f");
      },
      {"label 100", "0 to 99"});
}

TEST(Cifar, OnlyWholeRecords) {
  const Bytes whole = record({1}, 0);
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::span part(whole.data(), size);
    EXPECT_THROW(parse_cifar(part, CifarKind::kCifar10, "f"), IoError) << size;
  }
  expect_error([&] { parse_cifar(whole, CifarKind::kCifar100, "f"); },
               {"3073 bytes", "CIFAR-100 records of 3074"});
}

TEST(Cifar, RealTestBatch) {
  FACULA_REQUIRE_SHARED_DATA(path, "cifar10/test_batch.bin.xz");
  const auto records = read_cifar(path, CifarKind::kCifar10, 30'730'000);
  EXPECT_EQ(records.images.size(), 10'000 * kImage);
  for (uint8_t label = 0; label < 10; ++label)
    EXPECT_EQ(std::count(records.labels.begin(), records.labels.end(), label), 1000);
  expect_error([&] { read_cifar(path, CifarKind::kCifar10, 100'000); }, {path, "limit"});
}

}  // namespace
}  // namespace facula::io
