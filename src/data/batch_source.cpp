#include "data/batch_source.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <new>

#include <fmt/core.h>

#include "base/check.h"
#include "base/function_ref.h"
#include "base/log.h"
#include "base/per_thread.h"
#include "base/rethrow.h"
#include "base/thread_pool.h"
#include "data/batch_builder.h"
#include "data/batch_plan.h"
#include "data/stage_times.h"
#include "data/staging.h"

namespace facula::data {
namespace {

constexpr std::int64_t kPrefetch = 3;  // samples ahead

/// Throws the exception that is being handled as an error of sample `number`, which `about`
/// describes. Lack of memory is no sample's: with all left out, an epoch would end without data.
[[noreturn]] void rethrow_as_sample_error(const std::string& about, std::int64_t number) {
  try {
    throw;
  } catch (const OutOfMemory&) {
    base::rethrow_with(fmt::format(" (DataLoader: {})", about));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw SampleError(fmt::format("{}: {}", about, error.what()), number);
  } catch (...) {
    throw SampleError(fmt::format("{}: an exception that is no std::exception", about), number);
  }
}

/// A sample whose memory serves one batch after the other.
class SpareSample {
 public:
  SpareSample() : sample_(std::move(base::per_thread<Spare>().sample)) {}
  ~SpareSample() {
    // A thread must not keep what a data set owns; names are what it can reuse.
    for (Sample::Field& field : sample_.fields()) field.set(std::int64_t{0});
    base::per_thread<Spare>().sample = std::move(sample_);
  }
  Sample& get() { return sample_; }

 private:
  struct Spare {
    Sample sample;
  };

  Sample sample_;
};

/// Does something at the end of its life.
template <class Function>
class AtEnd {
 public:
  explicit AtEnd(Function function) : function_(std::move(function)) {}
  ~AtEnd() { function_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  Function function_;
};

/// The samples of a batch that failed, by their places.
class Failures {
 public:
  void add(std::int64_t place, const SampleError& error) {
    const std::lock_guard lock(mutex_);
    failures_.emplace_back(place, error);
  }

  /// Throws the first one, or tells of all of them and returns their places.
  std::vector<std::int64_t> settle(bool skip) {
    std::sort(failures_.begin(), failures_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::int64_t> places;
    for (const auto& [place, error] : failures_) {
      if (!skip) throw SampleError(error);
      log_warning("DataLoader: left out {}", error.what());
      places.push_back(place);
    }
    return places;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::int64_t, SampleError>> failures_;
};

/// Makes one batch of `count` samples. `load(place, sample)` yields the sample of a place, as the
/// transform left it; `name(place)` is its number.
struct BatchJob {
  const BatchSource& source;
  const DataLoaderOptions& options;
  std::int64_t count;
  FunctionRef<void(std::int64_t place, Sample& sample)> load;
  FunctionRef<std::int64_t(std::int64_t place)> name;
  Activity& activity;
  Failures failures = {};

  template <class Body>
  void guarded(std::int64_t place, Body&& body) {
    const std::int64_t number = name(place);
    activity.sample.store(number, std::memory_order_relaxed);
    try {
      try {
        body();
      } catch (...) {
        rethrow_as_sample_error(source.describe(number), number);
      }
    } catch (const SampleError& error) {
      failures.add(place, error);
    }
  }

  /// body(slice, place, sample) for all places, in slices of neighbours that reuse one sample's
  /// memory; ended(slice) after the last of a slice, whatever has been thrown.
  template <class Body, class Ended>
  void for_each_sample(bool parallel, Body&& body, Ended&& ended) {
    // Many, because what their samples cost may differ.
    const std::int64_t slices = parallel ? std::min(count, BatchBuilder::kMostSlices) : 1;
    const auto run = [&](std::int64_t slice) {
      SpareSample spare;
      const AtEnd end([&] { ended(slice); });
      for (std::int64_t place = count * slice / slices; place < count * (slice + 1) / slices;
           ++place) {
        if (activity.cancelled.load(std::memory_order_relaxed)) return;
        guarded(place, [&] { body(slice, place, spare.get()); });
      }
    };
    if (slices == 1) return run(0);
    // Begun in order, so that no slice that waits for those before it keeps a thread from them.
    std::atomic<std::int64_t> next{0};
    base::parallel_for(slices, [&](std::int64_t) { run(next++); });
  }

  std::optional<Batch> stack(bool parallel) {
    BatchBuilder builder(count, options.pin_memory != 0);
    for_each_sample(
        parallel,
        [&](std::int64_t slice, std::int64_t place, Sample& sample) {
          load(place, sample);
          const StageTimer timer(Stage::write);
          builder.place(slice, place, sample);
        },
        [&](std::int64_t slice) { builder.end_slice(slice); });
    if (activity.cancelled) return std::nullopt;
    const auto missing = failures.settle(options.skip_errors);
    if (static_cast<std::int64_t>(missing.size()) == count) return std::nullopt;
    return builder.finish(missing);
  }

  std::optional<Batch> collate_by_hand(bool parallel) {
    std::vector<Sample> samples(static_cast<std::size_t>(count));
    for_each_sample(
        parallel,
        [&](std::int64_t, std::int64_t place, Sample&) {
          load(place, samples[static_cast<std::size_t>(place)]);
        },
        [](std::int64_t) {});
    if (activity.cancelled) return std::nullopt;
    const auto missing = failures.settle(options.skip_errors);
    for (auto place = missing.rbegin(); place != missing.rend(); ++place) {
      samples.erase(samples.begin() + *place);
    }
    if (samples.empty()) return std::nullopt;
    return options.collate(samples);
  }

  std::optional<Batch> run(bool parallel, std::int64_t epoch, std::int64_t position) {
    std::optional<Batch> batch = options.collate ? collate_by_hand(parallel) : stack(parallel);
    if (batch && options.batch_transform) {
      Random random(options.seed, epoch, position, Random::Use::batch);
      options.batch_transform(*batch, random);
    }
    if (batch) {
      for (auto& field : batch->fields()) field.tensor = begin_copy(field.tensor, options.device);
    }
    return batch;
  }
};

class MapSource : public BatchSource {
 public:
  MapSource(DatasetPtr set, std::shared_ptr<const DataLoaderOptions> options, std::int64_t epoch,
            BatchPlan plan, bool by_position)
      : set_(std::move(set)),
        options_(std::move(options)),
        epoch_(epoch),
        plan_(std::move(plan)),
        by_position_(by_position) {}

  std::optional<std::int64_t> tickets() const override { return plan_.size(); }

  std::int64_t position(std::int64_t ticket) const override {
    const auto& positions = plan_.positions.empty() ? plan_.begins : plan_.positions;
    return positions[static_cast<std::size_t>(ticket)];
  }

  std::string describe(std::int64_t sample) const override {
    std::string source;
    try {
      source = set_->source(sample);
    } catch (...) {
      // The number alone, then: this describes another error.
    }
    return source.empty() ? fmt::format("sample {}", sample)
                          : fmt::format("sample {} ({})", sample, source);
  }

  Made make(std::int64_t ticket, bool parallel, Activity& activity) override {
    const std::int64_t begin = plan_.begins[static_cast<std::size_t>(ticket)];
    const std::int64_t count = plan_.begins[static_cast<std::size_t>(ticket) + 1] - begin;
    const std::int64_t* indices = plan_.indices.data() + begin;
    const std::int64_t first = position(ticket) + offset_of(plan_, ticket);
    const auto load = [&](std::int64_t place, Sample& sample) {
      {
        const StageTimer timer(Stage::read);
        if (place + kPrefetch < count) prefetch(indices[place + kPrefetch]);
        set_->load(indices[place], sample);
      }
      if (!options_->transform) return;
      const StageTimer timer(Stage::transform);
      Random random = by_position_
                          ? Random(options_->seed, epoch_, first + place, Random::Use::position)
                          : Random(options_->seed, epoch_, indices[place]);
      options_->transform(sample, random);
    };
    const auto name = [&](std::int64_t place) { return indices[place]; };
    BatchJob job{*this, *options_, count, load, name, activity};
    return {.batch = job.run(parallel, epoch_, position(ticket))};
  }

 private:
  /// What goes wrong will be told where the sample is read.
  void prefetch(std::int64_t index) const {
    try {
      set_->prefetch(index);
    } catch (...) {
    }
  }

  const DatasetPtr set_;
  const std::shared_ptr<const DataLoaderOptions> options_;
  const std::int64_t epoch_;
  const BatchPlan plan_;
  const bool by_position_;
};

/// Ticket k is turn k / shards of shard k % shards. Shards are read in the order of their turns,
/// one thread at a time; transforms run side by side.
class StreamSource : public BatchSource {
 public:
  StreamSource(std::shared_ptr<const IterableDataset> set,
               std::shared_ptr<const DataLoaderOptions> options, ReadPosition from)
      : set_(std::move(set)),
        options_(std::move(options)),
        epoch_(from.epoch),
        from_(std::move(from)),
        shards_(static_cast<std::size_t>(set_->shards())) {}

  std::optional<std::int64_t> tickets() const override { return std::nullopt; }
  std::int64_t shards() const override { return static_cast<std::int64_t>(shards_.size()); }
  std::int64_t position(std::int64_t ticket) const override {
    return std::max(ticket, from_.delivered);
  }
  std::string describe(std::int64_t sample) const override {
    return fmt::format("sample {} of shard {}", sample / shards(), sample % shards());
  }

  Made make(std::int64_t ticket, bool parallel, Activity& activity) override {
    std::int64_t first = 0;
    if (ticket < from_.delivered) {
      return {.batch = std::nullopt, .shard_ended = !skip(ticket, activity)};
    }
    std::vector<Sample> samples = read(ticket, activity, first);
    const auto count = static_cast<std::int64_t>(samples.size());
    const bool short_batch = count < options_->batch_size;
    if (count == 0 || (short_batch && options_->drop_last)) {
      return {.batch = std::nullopt, .shard_ended = short_batch};
    }
    const std::int64_t shard = ticket % shards();
    const auto name = [&](std::int64_t place) { return (first + place) * shards() + shard; };
    const auto load = [&](std::int64_t place, Sample& sample) {
      sample = std::move(samples[static_cast<std::size_t>(place)]);
      if (!options_->transform) return;
      const StageTimer timer(Stage::transform);
      Random random(options_->seed, epoch_, name(place));
      options_->transform(sample, random);
    };
    BatchJob job{*this, *options_, count, load, name, activity};
    return {.batch = job.run(parallel, epoch_, ticket), .shard_ended = short_batch};
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::condition_variable turn_came;
    std::int64_t turn = 0;     // of the batch to be read next
    std::int64_t samples = 0;  // read so far
    std::unique_ptr<IterableDataset::Stream> stream;
    bool ended = false;
  };

  /// Reads past what has been delivered; false if the shard has ended.
  bool skip(std::int64_t ticket, Activity& activity) {
    std::int64_t first = 0;
    return std::ssize(read(ticket, activity, first)) == options_->batch_size;
  }

  /// The samples of a ticket as the stream yields them; `first` is the number of the first one in
  /// its shard. Fewer than a batch mean that the shard has ended.
  std::vector<Sample> read(std::int64_t ticket, Activity& activity, std::int64_t& first) {
    Shard& shard = shards_[static_cast<std::size_t>(ticket % shards())];
    const std::int64_t turn = ticket / shards();
    std::unique_lock lock(shard.mutex);
    shard.turn_came.wait(lock, [&] { return shard.turn == turn; });
    first = shard.samples;
    std::vector<Sample> samples;
    // The next turn comes even if reading throws.
    struct NextTurn {
      Shard& shard;
      ~NextTurn() {
        ++shard.turn;
        shard.turn_came.notify_all();
      }
    } const next_turn{shard};
    const StageTimer timer(Stage::read);
    // Thrown before the position was saved: the shard ends here again, even if reading went well.
    if (std::ranges::count(from_.failed, ticket)) {
      shard.ended = true;
      log_warning("DataLoader: {}: left out as before, and all that follow in the shard",
                  describe(shard.samples * shards() + ticket % shards()));
    }
    try {
      activity.sample.store(shard.samples * shards() + ticket % shards());
      if (!shard.stream && !shard.ended) {
        shard.stream = set_->open(ticket % shards(), epoch_);
        check<ValueError>(shard.stream != nullptr,
                          "IterableDataset::open() returned null; of a shard without samples, "
                          "return a Stream whose next() is false");
      }
      while (!shard.ended && static_cast<std::int64_t>(samples.size()) < options_->batch_size) {
        activity.sample.store(shard.samples * shards() + ticket % shards());
        Sample sample;
        if (activity.cancelled || !shard.stream->next(sample)) {
          shard.ended = true;
        } else {
          ++shard.samples;
          samples.push_back(std::move(sample));
        }
      }
    } catch (...) {
      shard.ended = true;  // what comes after a failed read is unknown
      activity.shard_failed = true;
      const std::int64_t number = shard.samples * shards() + ticket % shards();
      rethrow_as_sample_error(describe(number), number);
    }
    return samples;
  }

  const std::shared_ptr<const IterableDataset> set_;
  const std::shared_ptr<const DataLoaderOptions> options_;
  const std::int64_t epoch_;
  const ReadPosition from_;
  std::vector<Shard> shards_;
};

}  // namespace

std::unique_ptr<BatchSource> map_source(DatasetPtr set,
                                        std::shared_ptr<const DataLoaderOptions> options,
                                        std::int64_t epoch, BatchPlan plan, bool by_position) {
  return std::make_unique<MapSource>(std::move(set), std::move(options), epoch, std::move(plan),
                                     by_position);
}

std::unique_ptr<BatchSource> stream_source(std::shared_ptr<const IterableDataset> set,
                                           std::shared_ptr<const DataLoaderOptions> options,
                                           const ReadPosition& from) {
  return std::make_unique<StreamSource>(std::move(set), std::move(options), from);
}

}  // namespace facula::data
