// Memory stays what it is, however long a loader runs and however many threads it has.
#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <facula/data/data_loader.h>
#include <facula/data/transforms.h>
#include <facula/memory.h>

#include "data/pixel_source.h"
#include "tests/io/encode_image.h"
#include "tests/io/test_files.h"
#include "tests/support/memory_cap.h"

namespace facula::data {
namespace {

constexpr std::int64_t kBatch = 4, kPhotos = 12, kSide = 64;

/// Photographs of several sizes.
ImageDatasetPtr photos(const io::TempFolder& folder) {
  for (std::int64_t i = 0; i < kPhotos; ++i) {
    const auto file = io::encode_jpeg(io::test_pixels(90 + 5 * i, 150 - 5 * i, 3));
    std::filesystem::create_directories(folder / "c");
    io::put(folder / ("c/" + std::to_string(i) + ".jpg"),
            {reinterpret_cast<const char*>(file.data()), file.size()});
  }
  return image_folder(folder.path());
}

DataLoader loader_of(const DatasetPtr& set, int workers, int prefetch = kAuto) {
  return DataLoader(set,
                    {.batch_size = kBatch,
                     .shuffle = true,
                     .transform = transforms::Compose(
                         {transforms::RandomResizedCrop({.size = kSide}), transforms::ToTensor()}),
                     .num_workers = workers,
                     .prefetch = prefetch});
}

std::int64_t resident_bytes() {
  std::ifstream statistics("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  statistics >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

void run_epochs(const DataLoader& loader, std::int64_t first, std::int64_t last) {
  for (std::int64_t epoch = first; epoch < last; ++epoch) {
    for (const Batch& batch : loader.epoch(epoch)) ASSERT_EQ(batch[0].size(0), kBatch);
  }
}

TEST(LoaderMemory, IsFlatOver100Epochs) {
  const io::TempFolder folder;
  const auto set = photos(folder);
  for (const int workers : {0, 2, kAuto}) {
    const DataLoader loader = loader_of(set, workers);
    run_epochs(loader, 0, 10);
    const cpu::MemoryStats before = cpu::memory_stats();
    [[maybe_unused]] const std::int64_t resident = resident_bytes();
    run_epochs(loader, 10, 100);
    const cpu::MemoryStats after = cpu::memory_stats();
    EXPECT_EQ(after.allocated_bytes, before.allocated_bytes) << workers << " workers";
    // While kAuto still tries settings, it may need a few batches more.
    const std::int64_t few = 8 * kBatch * kSide * kSide * 3 * 4;
    EXPECT_LE(after.reserved_bytes, before.reserved_bytes + few) << workers << " workers";
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep books of memory
    EXPECT_LT(resident_bytes() - resident, 4 << 20) << workers << " workers";
#endif
  }
}

TEST(LoaderMemory, HoldsTheBatchesMadeAheadAndNoMore) {
  const io::TempFolder folder;
  const auto set = photos(folder);
  const std::int64_t empty_bytes = cpu::memory_allocated();
  Batch batch;
  ASSERT_TRUE(loader_of(set, 0).epoch(0).next(batch));
  const std::int64_t batch_bytes = cpu::memory_allocated() - empty_bytes;
  ASSERT_GE(batch_bytes, kBatch * kSide * kSide * 3 * 4);
  batch = Batch();
  for (const int workers : {1, 2, 7}) {
    for (const int prefetch : {1, 2, 5}) {
      const DataLoader loader = loader_of(set, workers, prefetch);
      cpu::reset_peak_memory_stats();
      run_epochs(loader, 0, 20);
      EXPECT_LE(cpu::max_memory_allocated() - empty_bytes, (prefetch + 1) * batch_bytes)
          << workers << " workers, prefetch " << prefetch;
    }
  }
}

/// Samples of 8 MiB, and small ones between them.
struct Large : Dataset {
  static constexpr std::int64_t kMebibytes = 8;
  std::int64_t size() const override { return 40; }
  Sample get(std::int64_t i) const override {
    return {zeros({i % 2 == 0 ? kMebibytes << 18 : 1}, kFloat32)};
  }
};

TEST(LoaderMemory, ThePartThatBatchesTakeIsOfTheCap) {
  const RestoreMemoryCap cap;
  set_host_memory_cap(cpu::memory_reserved() + (std::int64_t{11 * Large::kMebibytes} << 20));
  for (const int workers : {4, kAuto}) {
    const DataLoader loader(std::make_shared<Large>(), {.num_workers = workers});
    std::int64_t batches = 0;
    for ([[maybe_unused]] const Batch& batch : loader.epoch(0)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(batches == 0 ? 200 : 5));
      ++batches;
    }
    EXPECT_EQ(batches, 40) << workers << " workers";
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/// Rows of zeros.
struct Blank : PixelSource {
  struct Rows : RowReader {
    std::vector<std::uint8_t> rows;
    std::int64_t stride;
    explicit Rows(std::int64_t stride) : stride(stride) {}
    PixelRows next(std::int64_t count) override {
      rows.resize(static_cast<std::size_t>(count * stride + kSlack));
      return {rows.data(), stride};
    }
  };
  Blank(std::int64_t rows, std::int64_t columns) {
    height = rows;
    width = columns;
    channels = 3;
  }
  std::unique_ptr<RowReader> rows(const Rect& part) const override {
    return std::make_unique<Rows>(part.width * channels);
  }
};

TEST(ImageMemory, ThreadsKeepNoLargeImages) {
  // What lies beyond the border may need any part of the image: all of it is decoded.
  Image image(std::make_shared<Blank>(8000, 5000));
  image.crop({-1, -1, 2, 2});
  std::uint8_t pixels[12];
  const std::int64_t before = resident_bytes();
  image.write(pixels);
  EXPECT_LT(resident_bytes() - before, 16 << 20);
}

#endif

}  // namespace
}  // namespace facula::data
