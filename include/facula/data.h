// Image data sets in memory, and a loader that turns them into shuffled, augmented batches.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <facula/tensor.h>

namespace facula::data {

/// Images with one label each. Copies share the tensors.
struct ImageDataset {
  std::string name;
  /// uint8 [N, C, H, W], stored channels_last.
  Tensor images;
  /// int64 [N], each in [0, classes).
  Tensor labels;
  std::int64_t classes = 0;
  /// Mean and standard deviation of each channel, of pixels scaled to [0, 1].
  std::vector<double> mean, std;
  /// The rows of `images` that belong to this set, in its order.
  std::vector<std::int64_t> samples;

  std::int64_t size() const { return static_cast<std::int64_t>(samples.size()); }
};

/// The two parts that the published data sets come in.
enum class Part : std::uint8_t { train, test };

/// Reads a folder with the four IDX files of MNIST under their usual names, raw or compressed (.gz,
/// .xz). Throws IoError naming the file that is missing, damaged or holds labels above 9.
FACULA_API ImageDataset mnist(const std::string& folder, Part part = Part::train);
/// The same files with Fashion-MNIST's mean and deviation.
FACULA_API ImageDataset fashion_mnist(const std::string& folder, Part part = Part::train);
/// Reads a folder with CIFAR-10's binary files data_batch_1.bin ... data_batch_5.bin or
/// test_batch.bin, raw or compressed. Throws IoError as above.
FACULA_API ImageDataset cifar10(const std::string& folder, Part part = Part::train);

/// Reads "KIND:FOLDER". Throws ValueError for an unknown kind.
FACULA_API ImageDataset load(const std::string& kind_and_folder, Part part = Part::train);
/// What load() accepts as KIND.
FACULA_API const std::vector<std::string>& kinds();

/// All of `images` (uint8 [N, C, H, W]) with `labels` (int64 [N]) as a set. Mean and deviation are
/// 0.5. Throws DTypeError, ShapeError or ValueError (a label outside [0, classes)).
FACULA_API ImageDataset from_tensors(const Tensor& images, const Tensor& labels,
                                     std::int64_t classes);

/// Divides a set at random into the rest and a part of round(fraction * size) samples, both in
/// the set's order. Depends on the set's size, the fraction and the seed only. Throws ValueError
/// unless both get at least one sample.
FACULA_API std::pair<ImageDataset, ImageDataset> random_split(const ImageDataset& set,
                                                              double fraction, std::uint64_t seed);

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  /// A new order in every epoch, a function of (seed, epoch).
  bool shuffle = false;
  /// Leave out the last batch if it is smaller than the others.
  bool drop_last = false;
  std::uint64_t seed = 0;
  /// Mirror every second image, at random.
  bool flip = false;
  /// Shift images at random by up to this many pixels each way, filling in black; 0 for none.
  std::int64_t crop_padding = 0;
  /// Subtract the set's mean and divide by its deviation; otherwise pixels are scaled to [0, 1].
  bool normalize = true;
  /// Batches made ahead by a background thread; 0 makes each when it is asked for.
  int prefetch = 2;
};

struct Batch {
  Tensor input;   ///< float32 [n, C, H, W], channels_last
  Tensor target;  ///< int64 [n]
};

/// One pass over a data set. Leaving it early stops its background thread.
class FACULA_API Epoch {
 public:
  Epoch(Epoch&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Epoch& operator=(Epoch&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Epoch();

  /// Puts the next batch into `batch`; false after the last. Rethrows what went wrong in the
  /// background.
  bool next(Batch& batch);

  /// For range-based loops; an epoch can be gone through once.
  class Iterator {
   public:
    explicit Iterator(Epoch& epoch) : epoch_(&epoch) { ++*this; }
    Batch& operator*() { return batch_; }
    Iterator& operator++() {
      if (!epoch_->next(batch_)) epoch_ = nullptr;
      return *this;
    }
    bool operator!=(std::nullptr_t) const { return epoch_ != nullptr; }

   private:
    Epoch* epoch_;
    Batch batch_;
  };
  Iterator begin() { return Iterator(*this); }
  std::nullptr_t end() const { return nullptr; }

 private:
  friend class DataLoader;
  struct State;
  explicit Epoch(State* state) : state_(state) {}

  State* state_;
};

/// Makes batches of a data set:
///
///   data::DataLoader loader(data::mnist(folder), {.batch_size = 64, .shuffle = true});
///   for (int epoch = 0; epoch < 3; ++epoch) {
///     for (auto& [input, target] : loader.epoch(epoch)) { ... }
///   }
///
/// What an augmented image looks like depends on (seed, epoch, its row) alone, never on threads or
/// on the order of the batches. The memory of batches comes from the caching allocator and is
/// reused as soon as the batch is gone.
class FACULA_API DataLoader {
 public:
  /// Throws ValueError for options out of range and for an empty or inconsistent set.
  explicit DataLoader(ImageDataset set, const DataLoaderOptions& options = {});

  /// Batches in an epoch.
  std::int64_t size() const;
  const ImageDataset& dataset() const { return set_; }
  const DataLoaderOptions& options() const { return options_; }
  /// Begins epoch `number` (0, 1, ...). The loader may be gone before the epoch is over.
  Epoch epoch(std::int64_t number) const;

 private:
  ImageDataset set_;
  DataLoaderOptions options_;
};

}  // namespace facula::data
