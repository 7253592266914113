#include <facula/data/data_loader.h>

#include <algorithm>

#include <facula/parallel.h>

#include "base/check.h"
#include "base/cpu_info.h"
#include "data/batch_plan.h"
#include "data/batch_source.h"
#include "data/epoch_state.h"

namespace facula::data {
namespace {

/// Each takes memory in every epoch.
constexpr std::int64_t kMostShards = std::int64_t{1} << 20;

void check_options(const DataLoaderOptions& options) {
  check<ValueError>(options.batch_size >= 1, "DataLoader: batch_size is {}, must be at least 1",
                    options.batch_size);
  check<ValueError>(options.num_workers >= kAuto && options.num_workers <= 1024,
                    "DataLoader: num_workers is {}, expected 0 to 1024 or kAuto",
                    options.num_workers);
  check<ValueError>(
      options.prefetch == kAuto || (options.prefetch >= 1 && options.prefetch <= 1024),
      "DataLoader: prefetch is {}, expected 1 to 1024 batches or kAuto", options.prefetch);
  check<ValueError>(options.pin_memory >= kAuto && options.pin_memory <= 1,
                    "DataLoader: pin_memory is {}, expected 0, 1 or kAuto", options.pin_memory);
  check<ValueError>(options.timeout >= 0, "DataLoader: timeout is {}, expected 0 or more seconds",
                    options.timeout);
  check<ValueError>(options.timeout == 0 || options.num_workers != 0,
                    "DataLoader: a timeout of {} s with num_workers = 0, where the caller makes "
                    "batches and cannot give up; take background threads, or no timeout",
                    options.timeout);
  check<ValueError>(
      options.world_size >= 1 && options.rank >= 0 && options.rank < options.world_size,
      "DataLoader: rank {} of {}, expected 0 to one less than their number", options.rank,
      options.world_size);
  check<ValueError>(!(options.sampler && options.shuffle),
                    "DataLoader: a sampler decides the order itself; leave out shuffle");
  check<ValueError>(!options.batch_sampler || (options.batch_size == 1 && !options.shuffle &&
                                               !options.drop_last && !options.sampler),
                    "DataLoader: a batch sampler decides the batches itself; leave out batch_size, "
                    "shuffle, drop_last and sampler");
}

WorkerTuner::Limits limits() {
  return {.cpus = base::usable_cpus(), .compute_threads = get_num_threads()};
}

}  // namespace

SampleError::~SampleError() = default;

struct DataLoader::Shared {
  Shared(DatasetPtr map, std::shared_ptr<const IterableDataset> iterable, DataLoaderOptions wanted)
      : set(std::move(map)),
        stream(std::move(iterable)),
        options(std::make_shared<const DataLoaderOptions>(std::move(wanted))),
        state(std::make_shared<LoaderState>(limits())) {
    check_options(*options);
    state->seed = static_cast<std::int64_t>(options->seed);
    if (stream) {
      check_stream();
      state->shards = stream->shards();
      state->batch_size = options->batch_size;
      return;
    }
    check<ValueError>(set && set->size() > 0, "DataLoader: the data set is empty; give it samples");
    state->size = set->size();
    sampler = options->sampler;
    if (sampler) return;
    if (options->shuffle) {
      sampler = std::make_shared<RandomSampler>(set->size(), options->seed);
    } else {
      sampler = std::make_shared<SequentialSampler>(set->size());
    }
  }

  void check_stream() const {
    const std::int64_t shards = stream->shards();
    check<ValueError>(shards >= 1 && shards <= kMostShards,
                      "DataLoader: a stream of {} shards, expected 1 to {}; join some", shards,
                      kMostShards);
    check<ValueError>(
        !options->shuffle && !options->sampler && !options->batch_sampler &&
            options->world_size == 1,
        "DataLoader: a stream has its own order; leave out shuffle, sampler, batch_sampler and "
        "world_size, and open different streams in different ranks");
  }

  /// The batches of an epoch without its first samples.
  BatchPlan plan(std::int64_t epoch, std::int64_t skipped) const {
    BatchPlan plan;
    if (options->batch_sampler) {
      plan = options->batch_sampler->plan(epoch);
      check_plan(plan);
      if (skipped > 0) plan = without_first(plan, skipped);
    } else {
      const std::vector<std::int64_t> order = sampler->order(epoch);
      check<ValueError>(skipped <= std::ssize(order),
                        "DataLoader: the saved position is after {} samples, the epoch has {}; use "
                        "the sampler that was saved with",
                        skipped, order.size());
      plan = cut_into_batches(order, skipped, options->batch_size, options->drop_last);
    }
    const std::int64_t size = set->size();
    for (const std::int64_t i : plan.indices) {
      check<IndexError>(i >= 0 && i < size,
                        "DataLoader: the sampler names sample {}, the data set has 0 to {}", i,
                        size - 1);
    }
    return share_of(plan, options->rank, options->world_size);
  }

  bool by_position() const {
    return options->batch_sampler ? options->batch_sampler->repeats() : sampler->repeats();
  }

  const DatasetPtr set;
  const std::shared_ptr<const IterableDataset> stream;
  const std::shared_ptr<const DataLoaderOptions> options;
  const std::shared_ptr<LoaderState> state;
  std::shared_ptr<const Sampler> sampler;
};

DataLoader::DataLoader(DatasetPtr set, DataLoaderOptions options)
    : shared_(std::make_shared<Shared>(std::move(set), nullptr, std::move(options))) {}

DataLoader::DataLoader(std::shared_ptr<const IterableDataset> set, DataLoaderOptions options)
    : shared_(std::make_shared<Shared>(nullptr, std::move(set), std::move(options))) {}

const DataLoaderOptions& DataLoader::options() const { return *shared_->options; }

const DatasetPtr& DataLoader::dataset() const { return shared_->set; }

std::int64_t DataLoader::samples() const {
  check<ValueError>(!shared_->stream, "DataLoader: a stream does not know its number of samples");
  return static_cast<std::int64_t>(shared_->plan(0, 0).indices.size());
}

std::int64_t DataLoader::size() const {
  check<ValueError>(!shared_->stream, "DataLoader: a stream does not know its number of batches");
  const DataLoaderOptions& options = *shared_->options;
  if (options.batch_sampler) return options.batch_sampler->size();
  return count_batches(shared_->sampler->size(), options.batch_size, options.drop_last);
}

Epoch DataLoader::epoch(std::int64_t number) const {
  check<ValueError>(number >= 0 && number < std::int64_t{1} << 32,
                    "DataLoader: epoch {} does not exist; count from 0", number);
  const Shared& shared = *shared_;
  const ReadPosition from = shared.state->beginning(number);
  std::unique_ptr<BatchSource> source =
      shared.stream ? stream_source(shared.stream, shared.options, from)
                    : map_source(shared.set, shared.options, number,
                                 shared.plan(number, from.delivered), shared.by_position());
  Epoch epoch(
      std::make_shared<Epoch::State>(std::move(source), shared.options, shared.state, from));
  epoch.state_->start();
  return epoch;
}

StateDict DataLoader::state_dict() const {
  const std::lock_guard lock(shared_->state->mutex);
  return shared_->state->saved(shared_->state->latest);
}

void DataLoader::load_state_dict(const StateDict& state) {
  const std::int64_t size = shared_->state->size, seed = shared_->state->seed;
  check<ValueError>(state.integer("size") == size && state.integer("seed") == seed,
                    "DataLoader: the saved position belongs to {} samples and seed {}, this loader "
                    "has {} and {}; use the same data set and seed",
                    state.integer("size"), state.integer("seed"), size, seed);
  if (shared_->stream) {
    const std::int64_t shards = shared_->state->shards, batch = shared_->state->batch_size;
    check<ValueError>(state.integer("shards") == shards && state.integer("batch_size") == batch,
                      "DataLoader: the saved position counts batches of {} from {} shards, this "
                      "loader takes {} from {}; a stream goes on only with the same of both",
                      state.integer("batch_size"), state.integer("shards"), batch, shards);
  }
  ReadPosition position{.epoch = state.integer("epoch"), .delivered = state.integer("position")};
  check<ValueError>(position.epoch >= 0 && position.delivered >= 0,
                    "DataLoader: the saved position is epoch {}, {} samples; both must be at least "
                    "0",
                    position.epoch, position.delivered);
  if (state.contains("failed")) {
    position.failed = state.tensor("failed").to_vector<std::int64_t>();
  }
  shared_->state->load(std::move(position));
}

std::string DataLoader::decision() const {
  const std::lock_guard lock(shared_->state->mutex);
  return shared_->state->tuner.decision();
}

Epoch::Epoch(std::shared_ptr<State> state) : state_(std::move(state)) {}

Epoch::Epoch(Epoch&& other) noexcept = default;

Epoch& Epoch::operator=(Epoch&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Epoch::~Epoch() {
  if (state_) state_->close();
}

bool Epoch::next(Batch& batch) {
  check<ValueError>(state_ != nullptr, "Epoch::next: the epoch was moved away");
  return state_->next(batch);
}

bool Epoch::is_over() const {
  check<ValueError>(state_ != nullptr, "Epoch::is_over: the epoch was moved away");
  return state_->is_over();
}

StateDict Epoch::state_dict() const {
  check<ValueError>(state_ != nullptr, "Epoch::state_dict: the epoch was moved away");
  return state_->state_dict();
}

}  // namespace facula::data
