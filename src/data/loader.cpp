#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include <facula/data.h>

#include "base/check.h"
#include "data/augment.h"
#include "data/random_choice.h"

namespace facula::data {
namespace {

void check_set(const ImageDataset& set) {
  check<ValueError>(set.images.defined() && set.labels.defined() && set.size() > 0,
                    "DataLoader: the data set '{}' is empty; give it samples", set.name);
  check<ValueError>(set.images.dim() == 4 && set.images.dtype() == kUInt8 &&
                        set.images.is_contiguous(kChannelsLast) && set.labels.dtype() == kInt64 &&
                        set.labels.is_contiguous() && set.labels.numel() == set.images.size(0),
                    "DataLoader: the data set '{}' has images {} {} and labels {} {}, expected "
                    "uint8 [N, C, H, W] "
                    "in channels_last and int64 [N]; make it with from_tensors",
                    set.name, name_of(set.images.dtype()), set.images.sizes().str(),
                    name_of(set.labels.dtype()), set.labels.sizes().str());
  const auto channels = static_cast<std::size_t>(set.images.size(1));
  check<ValueError>(set.mean.size() == channels && set.std.size() == channels &&
                        std::all_of(set.std.begin(), set.std.end(), [](double s) { return s > 0; }),
                    "DataLoader: the data set '{}' has {} means and {} deviations for {} channels; "
                    "give one of each per channel, deviations above 0",
                    set.name, set.mean.size(), set.std.size(), channels);
  for (const std::int64_t row : set.samples) {
    check<ValueError>(row >= 0 && row < set.images.size(0),
                      "DataLoader: the data set '{}' lists sample {}, but has rows 0 to {}",
                      set.name, row, set.images.size(0) - 1);
  }
}

void check_options(const DataLoaderOptions& options) {
  check<ValueError>(options.batch_size >= 1, "DataLoader: batch_size is {}, must be at least 1",
                    options.batch_size);
  check<ValueError>(options.crop_padding >= 0 && options.crop_padding <= 1024,
                    "DataLoader: crop_padding is {}, expected 0 to 1024 pixels",
                    options.crop_padding);
  check<ValueError>(options.prefetch >= 0 && options.prefetch <= 1024,
                    "DataLoader: prefetch is {}, expected 0 to 1024 batches", options.prefetch);
}

std::int64_t batch_count(std::int64_t samples, const DataLoaderOptions& options) {
  return options.drop_last ? samples / options.batch_size
                           : (samples + options.batch_size - 1) / options.batch_size;
}

}  // namespace

/// Makes the batches of an epoch, in the background or when asked.
struct Epoch::State {
  State(ImageDataset data, const DataLoaderOptions& loader_options, std::int64_t number)
      : set(std::move(data)),
        options(loader_options),
        epoch(number),
        table(set, options.normalize),
        batches(batch_count(set.size(), options)) {
    order = set.samples;
    if (options.shuffle) {
      const auto positions = permutation(set.size(), options.seed, Purpose::shuffle, epoch);
      for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = set.samples[static_cast<std::size_t>(positions[i])];
      }
    }
    if (options.prefetch > 0) worker = std::thread([this] { run(); });
  }

  ~State() {
    if (!worker.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    worker.join();
  }

  Batch make_batch(std::int64_t index) const {
    const std::int64_t first = index * options.batch_size;
    const std::int64_t count = std::min(options.batch_size, set.size() - first);
    const ImageShape shape{set.images.size(1), set.images.size(2), set.images.size(3)};
    Batch batch{empty({count, shape.channels, shape.height, shape.width}, kFloat32, kChannelsLast),
                empty({count}, kInt64)};
    const auto* pixels = set.images.data_ptr<std::uint8_t>();
    const auto* labels = set.labels.data_ptr<std::int64_t>();
    auto* input = batch.input.data_ptr<float>();
    auto* target = batch.target.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = order[static_cast<std::size_t>(first + i)];
      convert_image(pixels + row * shape.elements(), shape, draw_placement(options, epoch, row),
                    table, input + i * shape.elements());
      target[i] = labels[row];
    }
    return batch;
  }

  /// The background thread. It does not use the thread pool, which would then be busy when the
  /// training step wants it.
  void run() noexcept {
    try {
      for (std::int64_t index = 0; index < batches; ++index) {
        Batch batch = make_batch(index);
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] {
          return stop || ready.size() < static_cast<std::size_t>(options.prefetch);
        });
        if (stop) return;
        ready.push_back(std::move(batch));
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
      changed.notify_all();
    }
  }

  bool next(Batch& batch) {
    batch = {};  // before the next one is made: its memory can serve again
    if (delivered == batches) return false;
    if (!worker.joinable()) {
      batch = make_batch(delivered++);
      return true;
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return error || !ready.empty(); });
    if (ready.empty()) std::rethrow_exception(error);
    batch = std::move(ready.front());
    ready.pop_front();
    ++delivered;
    lock.unlock();
    changed.notify_all();
    return true;
  }

  const ImageDataset set;
  const DataLoaderOptions options;
  const std::int64_t epoch;
  const PixelTable table;
  const std::int64_t batches;
  std::vector<std::int64_t> order;
  std::int64_t delivered = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Batch> ready;
  std::exception_ptr error;
  bool stop = false;
  std::thread worker;
};

Epoch::~Epoch() { delete state_; }

bool Epoch::next(Batch& batch) { return state_->next(batch); }

DataLoader::DataLoader(ImageDataset set, const DataLoaderOptions& options)
    : set_(std::move(set)), options_(options) {
  check_set(set_);
  check_options(options_);
}

std::int64_t DataLoader::size() const { return batch_count(set_.size(), options_); }

Epoch DataLoader::epoch(std::int64_t number) const {
  check<ValueError>(number >= 0, "DataLoader: epoch {} does not exist; count from 0", number);
  return Epoch(new Epoch::State(set_, options_, number));
}

}  // namespace facula::data
