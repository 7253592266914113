// Loaders over random images, and all numbers that they deliver.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include <facula/data/data_loader.h>
#include <facula/data/transforms.h>
#include <facula/generator.h>

#include "data/staging.h"

namespace facula::data {

inline constexpr std::int64_t kCount = 53, kBatch = 8;

inline ImageDatasetPtr noise(std::int64_t count = kCount) {
  manual_seed(3);
  const Tensor images = randint(0, 256, {count, 3, 10, 12}).to(kUInt8);
  return from_tensors(images, arange(count).remainder(10), 10);
}

inline Transform augmentation() {
  return transforms::Compose({transforms::RandomCrop({.size = 8, .width = 9, .padding = 2}),
                              transforms::RandomHorizontalFlip(), transforms::ToTensor(),
                              transforms::Normalize({0.4, 0.5, 0.6}, {0.2, 0.3, 0.4})});
}

/// All numbers of an epoch in the order of delivery, batch sizes among them.
inline std::vector<double> drain(Epoch epoch, std::int64_t batches = -1) {
  std::vector<double> values;
  Batch batch;
  while (batches-- != 0 && epoch.next(batch)) {
    values.push_back(static_cast<double>(batch[0].size(0)));
    for (const Batch::Field& field : batch.fields()) {
      const auto numbers = field.tensor.to_vector<double>();
      values.insert(values.end(), numbers.begin(), numbers.end());
    }
  }
  return values;
}

inline std::vector<double> epoch_of(const DatasetPtr& set, DataLoaderOptions options,
                                    std::int64_t number = 1) {
  return drain(DataLoader(set, std::move(options)).epoch(number));
}

inline DataLoaderOptions augmented(int workers) {
  return {.batch_size = kBatch,
          .shuffle = true,
          .seed = 5,
          .transform = augmentation(),
          .num_workers = workers};
}

/// Page-locked memory and copies as the tests have them.
struct CountingStaging : Staging {
  std::atomic<int> calls{0}, uploads{0};
  Tensor upload(const Tensor& tensor, Device device) override {
    ++uploads;
    return tensor.to(device);
  }
  Tensor pinned(IntList sizes, DType dtype, MemoryFormat format) override {
    ++calls;
    return empty(sizes, dtype, format);
  }
};

}  // namespace facula::data
