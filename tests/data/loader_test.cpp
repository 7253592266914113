#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include <facula/data.h>
#include <facula/error.h>
#include <facula/memory.h>

#include "core/host_allocator.h"

namespace facula::data {
namespace {

constexpr std::int64_t kSide = 6;

/// Every pixel of image i is distinct, and the first is i + 1, so that images can be told apart.
ImageDataset numbered(std::int64_t count) {
  Tensor images = zeros({count, 2, kSide, kSide}, kUInt8).contiguous(kChannelsLast);
  auto* pixels = images.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < images.numel(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(i / (2 * kSide * kSide) + 1 + i % (2 * kSide * kSide));
  }
  Tensor labels = zeros({count}, kInt64);
  for (std::int64_t i = 0; i < count; ++i) labels.data_ptr<std::int64_t>()[i] = i;
  return from_tensors(images, labels, count);
}

/// Image values (in NCHW order) by label, over one epoch.
std::map<std::int64_t, std::vector<float>> images_of(const DataLoader& loader, std::int64_t epoch) {
  std::map<std::int64_t, std::vector<float>> images;
  for (auto& [input, target] : loader.epoch(epoch)) {
    const auto values = input.to_vector<float>();
    const auto labels = target.to_vector<std::int64_t>();
    const auto length = static_cast<std::ptrdiff_t>(values.size() / labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i) * length;
      images[labels[i]].assign(begin, begin + length);
    }
  }
  return images;
}

std::vector<std::int64_t> order_of(const DataLoader& loader, std::int64_t epoch) {
  std::vector<std::int64_t> order;
  for (auto& [input, target] : loader.epoch(epoch)) {
    for (const std::int64_t label : target.to_vector<std::int64_t>()) order.push_back(label);
  }
  return order;
}

TEST(DataLoader, DeliversEverySampleInBatches) {
  const DataLoader loader(numbered(10), {.batch_size = 4});
  EXPECT_EQ(loader.size(), 3);
  std::vector<std::int64_t> sizes;
  for (auto& [input, target] : loader.epoch(0)) {
    EXPECT_EQ(input.dtype(), kFloat32);
    EXPECT_TRUE(input.is_contiguous(kChannelsLast));
    EXPECT_EQ(input.sizes(), IntList({target.numel(), 2, kSide, kSide}));
    sizes.push_back(target.numel());
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4, 4, 2}));
  EXPECT_EQ(order_of(loader, 0), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(DataLoader(numbered(10), {.batch_size = 4, .drop_last = true}).size(), 2);
}

TEST(DataLoader, NormalizesPixels) {
  ImageDataset set = numbered(1);
  set.mean = {0.25, 0.5};
  set.std = {0.5, 0.125};
  const auto source = set.images.to_vector<std::uint8_t>();  // NCHW
  const auto values = images_of(DataLoader(set), 0)[0];
  const auto plain = images_of(DataLoader(set, {.normalize = false}), 0)[0];
  constexpr std::size_t kPlane = kSide * kSide;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const double mean = i < kPlane ? 0.25 : 0.5, std = i < kPlane ? 0.5 : 0.125;
    EXPECT_FLOAT_EQ(values[i], static_cast<float>((source[i] / 255.0 - mean) / std));
    EXPECT_FLOAT_EQ(plain[i], static_cast<float>(source[i] / 255.0));
  }
}

TEST(DataLoader, ShufflesBySeedAndEpoch) {
  const ImageDataset set = numbered(50);
  const DataLoader loader(set, {.batch_size = 7, .shuffle = true, .seed = 3});
  const auto first = order_of(loader, 0);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  EXPECT_EQ(order_of(loader, 0), first);
  EXPECT_NE(order_of(loader, 1), first);
  EXPECT_NE(order_of(DataLoader(set, {.batch_size = 7, .shuffle = true, .seed = 4}), 0), first);
}

TEST(DataLoader, AugmentationDependsOnSeedEpochAndRowOnly) {
  const ImageDataset set = numbered(20);
  DataLoaderOptions options{.batch_size = 20, .seed = 9, .flip = true, .crop_padding = 2};
  const auto expected = images_of(DataLoader(set, options), 4);
  for (const int prefetch : {0, 1, 5}) {
    for (const std::int64_t batch_size : {1, 3, 8}) {
      options.prefetch = prefetch;
      options.batch_size = batch_size;
      options.shuffle = batch_size == 3;
      EXPECT_EQ(images_of(DataLoader(set, options), 4), expected);
    }
  }
  // A part of the set shows its images as the whole does.
  ImageDataset part = set;
  part.samples = {17, 5};
  for (const auto& [label, image] : images_of(DataLoader(part, options), 4)) {
    EXPECT_EQ(image, expected.at(label));
  }
  EXPECT_NE(images_of(DataLoader(set, options), 5), expected);
  options.seed = 10;
  EXPECT_NE(images_of(DataLoader(set, options), 4), expected);
}

/// The image shifted by (top, left) and mirrored, found by plain indexing.
std::vector<float> placed(const std::vector<float>& image, bool flip, std::int64_t top,
                          std::int64_t left) {
  std::vector<float> result;
  for (std::int64_t c = 0; c < 2; ++c) {
    for (std::int64_t y = 0; y < kSide; ++y) {
      for (std::int64_t x = 0; x < kSide; ++x) {
        const std::int64_t from_y = y + top, from_x = (flip ? kSide - 1 - x : x) + left;
        const bool inside = from_y >= 0 && from_y < kSide && from_x >= 0 && from_x < kSide;
        result.push_back(
            inside ? image[static_cast<std::size_t>((c * kSide + from_y) * kSide + from_x)] : 0);
      }
    }
  }
  return result;
}

TEST(DataLoader, FlipsAndCropsInAllWays) {
  const ImageDataset set = numbered(100);
  const auto plain = images_of(DataLoader(set, {.batch_size = 100, .normalize = false}), 0);
  std::map<std::vector<int>, int> seen;
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    const DataLoader loader(
        set, {.batch_size = 100, .flip = true, .crop_padding = 1, .normalize = false});
    for (const auto& [label, image] : images_of(loader, epoch)) {
      int matches = 0;
      for (int way = 0; way < 18; ++way) {
        const bool flip = way % 2 == 1;
        const int top = way / 2 % 3 - 1, left = way / 6 - 1;
        if (placed(plain.at(label), flip, top, left) != image) continue;
        ++matches;
        ++seen[{flip, top, left}];
      }
      ASSERT_EQ(matches, 1);
    }
  }
  EXPECT_EQ(seen.size(), 18u);  // 500 draws miss one of 18 ways with probability 1e-11
}

TEST(DataLoader, LeavingAnEpochEarlyEndsIt) {
  const DataLoader loader(numbered(64), {.batch_size = 1});
  for (int repeat = 0; repeat < 50; ++repeat) {
    int batches = 0;
    for (auto& batch : loader.epoch(repeat)) {
      EXPECT_EQ(batch.target.numel(), 1);
      if (++batches == repeat % 5) break;
    }
  }
  Epoch unused = loader.epoch(0);
  Epoch moved = std::move(unused);
  Batch batch;
  EXPECT_TRUE(moved.next(batch));
}

TEST(DataLoader, BackgroundErrorsReachTheUser) {
  const DataLoader loader(numbered(2000), {.batch_size = 2000});
  const std::int64_t cap = host_memory_cap();
  cpu::empty_cache();
  set_host_memory_cap(cpu::memory_reserved() + 1000);  // less than one batch
  Epoch epoch = loader.epoch(0);
  Batch batch;
  EXPECT_THROW(epoch.next(batch), OutOfMemory);
  EXPECT_THROW(epoch.next(batch), OutOfMemory);  // and not a wait without end
  set_host_memory_cap(cap);
}

TEST(DataLoader, MemoryOfBatchesIsReused) {
  const DataLoader loader(numbered(4000), {.batch_size = 500, .shuffle = true});
  const auto pass = [&](std::int64_t epoch) {
    for (auto& batch : loader.epoch(epoch)) EXPECT_EQ(batch.target.numel(), 500);
    return cpu::memory_stats().system_allocations;
  };
  const std::int64_t before = pass(0);
  std::int64_t after = 0;
  for (std::int64_t epoch = 1; epoch < 20; ++epoch) after = pass(epoch);
  // How many batches exist at once depends on timing: a few more than before, but not 19 * 8.
  EXPECT_LE(after - before, 6);
}

TEST(DataLoader, RefusesBadOptions) {
  const ImageDataset set = numbered(4);
  EXPECT_THROW(DataLoader(set, {.batch_size = 0}), ValueError);
  EXPECT_THROW(DataLoader(set, {.crop_padding = -1}), ValueError);
  EXPECT_THROW(DataLoader(set, {.prefetch = -1}), ValueError);
  EXPECT_THROW(DataLoader(ImageDataset{}), ValueError);
  ImageDataset odd = set;
  odd.samples = {0, 4};
  EXPECT_THROW(DataLoader{odd}, ValueError);
  odd = set;
  odd.std[1] = 0;
  EXPECT_THROW(DataLoader{odd}, ValueError);
  EXPECT_THROW(DataLoader(set).epoch(-1), ValueError);
}

}  // namespace
}  // namespace facula::data
