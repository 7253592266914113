// Where the batches of one epoch come from.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <facula/data/data_loader.h>

namespace facula::data {

/// What the thread that makes a batch is about, for others to see.
struct Activity {
  /// Samples are left out once it is set; the batch is not wanted any more.
  std::atomic<bool> cancelled{false};
  /// The sample that is being read or transformed.
  std::atomic<std::int64_t> sample{-1};
  /// Reading the shard has failed: it has ended. Known once the ticket is done.
  bool shard_failed = false;
};

/// What a ticket has led to.
struct Made {
  /// Nothing if the ticket's shard has ended or all samples were left out.
  std::optional<Batch> batch;
  bool shard_ended = false;
};

/// How far an epoch has been delivered.
struct ReadPosition {
  std::int64_t epoch = 0;
  std::int64_t delivered = 0;             // samples over all ranks, or tickets of a stream
  std::vector<std::int64_t> failed = {};  // tickets of a stream whose failed read was delivered
};

/// Makes batches by number, several at a time by different threads. Tickets are to be claimed in
/// ascending order.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// `parallel`: spread the samples over the compute threads. Throws SampleError, what collate and
  /// batch transforms throw, and OutOfMemory or std::bad_alloc as they come.
  virtual Made make(std::int64_t ticket, bool parallel, Activity& activity) = 0;
  /// Tickets there are; nothing if only the end of all shards tells.
  virtual std::optional<std::int64_t> tickets() const = 0;
  virtual std::int64_t shards() const { return 1; }
  /// Samples of the epoch, over all ranks, that come before a ticket.
  virtual std::int64_t position(std::int64_t ticket) const = 0;
  /// "sample 17 (photos/17.jpg)".
  virtual std::string describe(std::int64_t sample) const = 0;
};

std::unique_ptr<BatchSource> map_source(DatasetPtr set,
                                        std::shared_ptr<const DataLoaderOptions> options,
                                        std::int64_t epoch, BatchPlan plan, bool by_position);
/// Leaves out the batches, and the errors, that have been delivered.
std::unique_ptr<BatchSource> stream_source(std::shared_ptr<const IterableDataset> set,
                                           std::shared_ptr<const DataLoaderOptions> options,
                                           const ReadPosition& from);

}  // namespace facula::data
