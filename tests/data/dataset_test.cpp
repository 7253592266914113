#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <facula/data.h>
#include <facula/error.h>

#include "tests/io/test_files.h"

namespace facula::data {
namespace {

using io::expect_error;
using io::put;
using io::TempFolder;

std::string idx(std::initializer_list<int> dims, const std::string& data) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (const int dim : dims) {
    file += {'\0', '\0', static_cast<char>(dim >> 8), static_cast<char>(dim & 0xff)};
  }
  return file + data;
}

/// Pixels count up from 0; image i has label i % 10.
void put_mnist(const TempFolder& folder, const std::string& prefix, int count) {
  std::string pixels, labels;
  for (int i = 0; i < count * 6; ++i) pixels += static_cast<char>(i);
  for (int i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
  put(folder / (prefix + "-images-idx3-ubyte"), idx({count, 2, 3}, pixels));
  put(folder / (prefix + "-labels-idx1-ubyte"), idx({count}, labels));
}

TEST(Dataset, ReadsMnist) {
  const TempFolder folder;
  put_mnist(folder, "train", 12);
  put_mnist(folder, "t10k", 3);
  const ImageDataset train = load("mnist:" + folder.path(), Part::train);
  EXPECT_EQ(train.size(), 12);
  EXPECT_EQ(train.classes, 10);
  EXPECT_EQ(train.images.sizes(), IntList({12, 1, 2, 3}));
  EXPECT_EQ(train.labels.to_vector<std::int64_t>()[11], 1);
  EXPECT_EQ(train.images.to_vector<std::uint8_t>()[71], 71);
  EXPECT_EQ(load("fashion-mnist:" + folder.path(), Part::test).size(), 3);
}

TEST(Dataset, ReadsCifarInChannelsLast) {
  const TempFolder folder;
  std::string record(1 + 3072, '\0');
  for (std::size_t i = 0; i < 3072; ++i) record[1 + i] = static_cast<char>(i / 1024 * 80 + i % 50);
  record[0] = 7;
  put(folder / "test_batch.bin", record + record);
  const ImageDataset set = cifar10(folder.path(), Part::test);
  EXPECT_EQ(set.images.sizes(), IntList({2, 3, 32, 32}));
  EXPECT_TRUE(set.images.is_contiguous(kChannelsLast));
  const auto values = set.images.to_vector<std::uint8_t>();  // in NCHW order
  for (std::size_t i = 0; i < 3072; ++i) {
    ASSERT_EQ(values[3072 + i], static_cast<std::uint8_t>(record[1 + i])) << i;
  }
  EXPECT_EQ(set.labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 7}));
}

TEST(Dataset, MissingFilesAreNamed) {
  const TempFolder folder;
  expect_error([&] { mnist(folder.path()); },
               {folder.path(), "lacks train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", ".gz"});
  expect_error([&] { mnist(folder / "absent"); }, {"absent", "is not a folder"});
  put_mnist(folder, "train", 2);
  expect_error([&] { mnist(folder.path(), Part::test); }, {"lacks t10k-images-idx3-ubyte"});
  expect_error([&] { cifar10(folder.path()); }, {"CIFAR-10", "lacks data_batch_1.bin"});
}

TEST(Dataset, DamagedFilesAreNamed) {
  const TempFolder folder;
  put_mnist(folder, "train", 4);
  const std::string images = folder / "train-images-idx3-ubyte";
  const std::string labels = folder / "train-labels-idx1-ubyte";
  const std::string good = io::get(images);

  put(images, good.substr(0, good.size() - 1));
  expect_error([&] { mnist(folder.path()); }, {images, "truncated"});
  put(images, "\x1f\x8bgarbage");
  expect_error([&] { mnist(folder.path()); }, {images});
  put(images, idx({24}, std::string(24, 'x')));
  expect_error([&] { mnist(folder.path()); }, {images, "expected images"});
  put(images, good);

  put(labels, idx({3}, "\x01\x02\x03"));
  expect_error([&] { mnist(folder.path()); }, {images, "4 images", labels, "3 labels"});
  put(labels, idx({4}, "\x01\x02\x0a\x03"));
  expect_error([&] { mnist(folder.path()); }, {labels, "label 10 of sample 2", "0 to 9"});

  put(folder / "test_batch.bin", std::string(3073, '\x0b'));
  expect_error([&] { cifar10(folder.path(), Part::test); }, {"test_batch.bin", "label"});
}

TEST(Dataset, UnknownKindListsTheKnown) {
  for (const char* text : {"imagenet:/x", "mnist", "", ":/x"}) {
    expect_error<ValueError>([&] { load(text); }, {"KIND:FOLDER", "mnist, fashion-mnist, cifar10"});
  }
}

TEST(Dataset, FromTensorsChecksLabels) {
  const Tensor images = zeros({2, 1, 4, 4}, kUInt8);
  const auto labels = [](double second) { return tensor({1, second}, {-1}, kInt64); };
  EXPECT_EQ(from_tensors(images, labels(2), 3).size(), 2);
  expect_error<ValueError>([&] { from_tensors(images, labels(3), 3); }, {"label 3 of sample 1"});
  expect_error<ValueError>([&] { from_tensors(images, labels(-1), 3); }, {"label -1"});
  expect_error<DTypeError>([&] { from_tensors(zeros({2, 1, 4, 4}), labels(0), 3); }, {"float32"});
  expect_error<ShapeError>(
      [&] {
        from_tensors(zeros({3, 1, 4, 4}, kUInt8), labels(0), 3);
      },
      {"[3, 1, 4, 4]", "[2]"});
}

TEST(RandomSplit, IsAFunctionOfTheSeed) {
  const ImageDataset set = from_tensors(zeros({100, 1, 1, 1}, kUInt8), zeros({100}, kInt64), 10);
  const auto [rest, held_out] = random_split(set, 0.2, 5);
  EXPECT_EQ(rest.size(), 80);
  EXPECT_EQ(held_out.size(), 20);
  std::set<std::int64_t> all(rest.samples.begin(), rest.samples.end());
  all.insert(held_out.samples.begin(), held_out.samples.end());
  EXPECT_EQ(all.size(), 100u);
  EXPECT_TRUE(std::is_sorted(held_out.samples.begin(), held_out.samples.end()));
  EXPECT_EQ(random_split(set, 0.2, 5).second.samples, held_out.samples);
  EXPECT_NE(random_split(set, 0.2, 6).second.samples, held_out.samples);
  for (const double fraction : {0.0, 1.0, -0.1, 1.5, 0.001, std::nan("")}) {
    EXPECT_THROW(random_split(set, fraction, 5), ValueError) << fraction;
  }
}

}  // namespace
}  // namespace facula::data
