// Batches of a data set, made by threads in the background or between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <facula/data/dataset.h>
#include <facula/data/sample.h>
#include <facula/data/sampler.h>
#include <facula/state_dict.h>

namespace facula::data {

/// Decided by measuring while batches are used.
inline constexpr int kAuto = -1;

struct DataLoaderOptions {
  /// Over all ranks.
  std::int64_t batch_size = 1;
  /// A new order in every epoch, a function of (seed, epoch).
  bool shuffle = false;
  /// Leave out the last batch if it is smaller than the others.
  bool drop_last = false;
  std::uint64_t seed = 0;
  /// Applied to every sample.
  Transform transform = {};
  /// Instead of `shuffle`.
  std::shared_ptr<const Sampler> sampler = {};
  /// Instead of `batch_size`, `shuffle`, `drop_last` and `sampler`.
  std::shared_ptr<const BatchSampler> batch_sampler = {};
  /// This loader yields its rank's share of each batch; see DistributedSampler.
  std::int64_t rank = 0, world_size = 1;
  /// Threads that make batches in the background; 0: batches are made when asked for, by the
  /// caller. kAuto measures what makes the whole loop fastest: the caller alone, all compute
  /// threads between two steps, or some number of background threads, unless the system gives none.
  int num_workers = kAuto;
  /// Batches made ahead by background threads.
  int prefetch = kAuto;
  /// Batches in page-locked memory, from which devices copy faster. kAuto: where a device's backend
  /// provides it. Without one it makes no difference.
  int pin_memory = kAuto;
  /// Where batches are delivered. Whoever makes a batch begins to copy it there at once; from
  /// page-locked memory, devices copy beside what they compute.
  Device device = kCPU;
  /// Instead of data::collate().
  Collate collate = {};
  /// Applied to every batch. Of several ranks, each applies it to its share, so that what mixes
  /// samples, as MixUp does, mixes those of one rank; its random numbers are the same in all.
  BatchTransform batch_transform = {};
  /// Leave out samples that cannot be read, or do not fit to the first of their batch that can be,
  /// with a warning, instead of throwing. A failed read of a stream is thrown all the same and ends
  /// its shard. Lack of memory (OutOfMemory, std::bad_alloc) is always thrown, as it comes.
  bool skip_errors = false;
  /// Seconds after which waiting for a batch is an error: SampleError, naming the sample, or Error
  /// if all threads are kept by other loaders, and the call after that waits for the same batch: to
  /// give it up, leave the epoch. 0: only a warning, after 30 seconds. Only background threads can
  /// be given up: with a timeout, kAuto is one for each CPU, and 0 threads are refused.
  double timeout = 0;
};

/// What a sample's reading or transforming threw, with the sample's index and source in front. Lack
/// of memory goes on as OutOfMemory or std::bad_alloc.
class FACULA_API SampleError : public Error {
 public:
  SampleError(const std::string& message, std::int64_t index) : Error(message), index_(index) {}
  ~SampleError() override;

  std::int64_t index() const { return index_; }

 private:
  std::int64_t index_;
};

/// One pass over a data set. Leaving it early stops its threads. Several threads may call next()
/// and state_dict(); moving and destroying are for one that is alone with it.
class FACULA_API Epoch {
 public:
  Epoch(Epoch&& other) noexcept;
  Epoch& operator=(Epoch&& other) noexcept;
  ~Epoch();

  /// Puts the next batch into `batch`; false after the last. Throws SampleError for a sample that
  /// fails; the call after that goes on with the next batch, after a timeout with the same. Of
  /// several threads, one at a time is in here, and each batch goes to one of them.
  bool next(Batch& batch);

  /// Whether nothing is left to be delivered. Until next() has returned false, true of a map-style
  /// set only.
  bool is_over() const;

  /// Where it stands, for DataLoader::load_state_dict() and whatever other epochs its loader has
  /// begun meanwhile: its number and how many samples have been delivered, over all ranks. Of
  /// batches that other threads are waiting for, it does not know yet.
  StateDict state_dict() const;

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
  explicit Epoch(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

/// Makes batches of a data set:
///
///   data::DataLoader loader(data::mnist(folder),
///                           {.batch_size = 64, .shuffle = true,
///                            .transform = data::transforms::ToTensor()});
///   for (int epoch = 0; epoch < 3; ++epoch) {
///     for (auto& [input, target] : loader.epoch(epoch)) { ... }
///   }
///
/// Which samples a batch holds and what they look like depends on (seed, epoch, index) alone, never
/// on threads. Images become tensors [n, C, H, W] in channels_last. The memory of batches comes
/// from the caching allocator and is used again as soon as the batch is gone. In the child of a
/// fork() loaders work, but epochs that were begun before throw Error unless num_workers is 0.
class FACULA_API DataLoader {
 public:
  /// Throws ValueError for options out of range or in conflict and for an empty set.
  explicit DataLoader(DatasetPtr set, DataLoaderOptions options = {});
  explicit DataLoader(std::shared_ptr<const IterableDataset> set, DataLoaderOptions options = {});
  /// Copies are one loader. Moving copies as well, so that what was moved from can still be used.
  DataLoader(const DataLoader& other) = default;
  DataLoader& operator=(const DataLoader& other) = default;

  /// Batches in an epoch. Throws ValueError for a stream, which does not know.
  std::int64_t size() const;
  /// Samples of this rank in epoch 0, and in the others too unless a batch sampler of one's own
  /// makes a difference; throws as above.
  std::int64_t samples() const;
  const DataLoaderOptions& options() const;
  /// What it was made with; null for a stream.
  const DatasetPtr& dataset() const;

  /// Begins epoch `number` (0, 1, ... below 2^32). The loader may be gone before the epoch is over.
  Epoch epoch(std::int64_t number) const;

  /// Where the epoch begun last, by whichever copy of the loader, stands, as Epoch::state_dict();
  /// or what was loaded, before an epoch.
  StateDict state_dict() const;
  /// The next epoch() with the saved number yields the batches that were not delivered, whatever
  /// the number of workers and ranks, and of a map-style set whatever the batch size. Epochs before
  /// it may be gone through meanwhile; one after it discards the position. Throws ValueError for
  /// the state of another data set or seed, or of a stream with another batch size or number of
  /// shards.
  void load_state_dict(const StateDict& state);

  /// What kAuto has decided and what it bought, in one line; empty before.
  std::string decision() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Seconds of all threads spent in making batches. read: Dataset::load; transform: transforms,
/// which of images mostly note what is wanted; decode: pixels out of compressed files; write: what
/// is left of putting samples into batches, such as cropping, resizing, converting.
struct StageSeconds {
  double read = 0, transform = 0, decode = 0, write = 0;
};
/// Begins to measure from zero, or ends it; costs about 0.2 us per sample meanwhile.
FACULA_API void measure_stages(bool on);
FACULA_API StageSeconds stage_seconds();

}  // namespace facula::data
