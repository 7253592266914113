#include <facula/data/data_loader.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <set>
#include <span>
#include <thread>

#include <facula/error.h>

#include "tests/data/loader_epochs.h"
#include "tests/io/test_files.h"

namespace facula::data {
namespace {

using io::expect_error;

TEST(Loader, SameBitsForAnyNumberOfWorkersAndPinning) {
  const auto set = noise();
  const auto expected = epoch_of(set, augmented(0));
  ASSERT_EQ(expected.size(), 7 + kCount * (3 * 8 * 9 + 1));
  CountingStaging staging;
  set_staging(&staging);
  for (const int workers : {0, 1, 2, 7, kAuto}) {
    for (const int pin : {0, 1}) {
      DataLoaderOptions options = augmented(workers);
      options.pin_memory = pin;
      EXPECT_EQ(epoch_of(set, options), expected) << workers << " workers, pinning " << pin;
      EXPECT_EQ(staging.calls.exchange(0), pin * 2 * 7);
    }
  }
  set_staging(nullptr);
  EXPECT_NE(epoch_of(set, augmented(0), 2), expected);
}

TEST(Loader, CopiesBatchesToTheDevice) {
  CountingStaging staging;
  for (const bool staged : {false, true}) {
    set_staging(staged ? &staging : nullptr);
    for (const int workers : {0, 2, kAuto}) {
      DataLoaderOptions options = augmented(workers);
      options.device = kNull;
      std::int64_t samples = 0;
      for (const Batch& batch : DataLoader(noise(), options).epoch(0)) {
        for (const auto& field : batch.fields()) EXPECT_EQ(field.tensor.device(), kNull);
        samples += batch[0].size(0);
      }
      EXPECT_EQ(samples, kCount);
      EXPECT_EQ(staging.calls.exchange(0), staged * 2 * 7);
      EXPECT_EQ(staging.uploads.exchange(0), staged * 2 * 7);
    }
  }
  set_staging(nullptr);
}

TEST(Loader, ResumesInMidEpochWithOtherWorkers) {
  const auto set = noise();
  const auto expected = epoch_of(set, augmented(0));
  for (const int workers : {0, 1, 2, 7, kAuto}) {
    for (const std::int64_t delivered : {0, 1, 3, 7}) {
      DataLoader first(set, augmented(workers));
      Epoch epoch = first.epoch(1);
      std::vector<double> values = drain(std::move(epoch), delivered);
      DataLoader second(set, augmented(2));
      second.load_state_dict(first.state_dict());
      const auto rest = drain(second.epoch(1));
      values.insert(values.end(), rest.begin(), rest.end());
      EXPECT_EQ(values, expected) << workers << " workers, " << delivered << " batches";
      EXPECT_EQ(drain(second.epoch(1)), expected);  // whole again
    }
  }
  DataLoader again(set, augmented(0));
  StateDict state;
  for (const auto& [name, value] : {std::pair{"epoch", 4}, {"position", 24}, {"seed", 5}}) {
    state.set(name, value);
  }
  state.set("size", kCount);
  again.load_state_dict(state);
  EXPECT_EQ(again.state_dict().integer("epoch"), 4);  // as it was loaded, until an epoch begins
  EXPECT_EQ(again.state_dict().integer("position"), 24);
  state.set("position", kCount + 1);
  again.load_state_dict(state);
  expect_error<ValueError>([&] { again.epoch(4); }, {"after 54 samples", "53"});
  DataLoader other(noise(9), augmented(0));
  expect_error<ValueError>([&] { other.load_state_dict(DataLoader(set).state_dict()); },
                           {"53 samples", "9"});
}

TEST(Loader, AnEpochKnowsItsPlaceWhateverElseItsLoaderBegins) {
  const auto set = noise();
  const auto expected = epoch_of(set, augmented(0));
  DataLoader first(set, augmented(0));
  const DataLoader copy = first;
  Epoch epoch = first.epoch(1);
  drain(copy.epoch(1), 5);
  drain(first.epoch(0));
  Batch batch;
  EXPECT_EQ(epoch.state_dict().integer("position"), 0);
  ASSERT_TRUE(epoch.next(batch));
  EXPECT_EQ(epoch.state_dict().integer("epoch"), 1);
  EXPECT_EQ(epoch.state_dict().integer("position"), 8);
  DataLoader second(set, augmented(2));
  second.load_state_dict(epoch.state_dict());
  const auto rest = drain(second.epoch(1));
  EXPECT_TRUE(std::ranges::equal(rest, std::span(expected).last(rest.size())));
  while (epoch.next(batch)) {
  }
  EXPECT_EQ(epoch.state_dict().integer("position"), kCount);
}

struct Squares : Dataset {
  std::int64_t size() const override { return 10; }
  Sample get(std::int64_t i) const override {
    return {tensor({double(i), 1.0}), i * i, 0.5 * static_cast<double>(i)};
  }
};

TEST(Loader, CollatesTuplesAndDictionaries) {
  const DataLoader loader(std::make_shared<Squares>(), {.batch_size = 4});
  Epoch epoch = loader.epoch(0);
  Batch batch;
  ASSERT_TRUE(epoch.next(batch));
  ASSERT_EQ(batch.size(), 3u);
  EXPECT_EQ(batch[0].to_vector<double>(), (std::vector<double>{0, 1, 1, 1, 2, 1, 3, 1}));
  EXPECT_EQ(batch[1].dtype(), kInt64);
  EXPECT_EQ(batch[1].to_vector<int>(), (std::vector<int>{0, 1, 4, 9}));
  EXPECT_EQ(batch[2].dtype(), kFloat32);
  EXPECT_EQ(batch[2].to_vector<double>(), (std::vector<double>{0, 0.5, 1, 1.5}));
  expect_error<IndexError>([&] { batch[3]; }, {"field 3", "3"});

  struct Named : Dataset {
    std::int64_t size() const override { return 3; }
    Sample get(std::int64_t i) const override {
      Sample sample;
      sample.add("text", tensor({double(i)}));
      sample.add("length", i);
      return sample;
    }
  };
  const DataLoader named(std::make_shared<Named>(), {.batch_size = 3});
  for (Batch& one : named.epoch(0)) {
    EXPECT_EQ(one["length"].to_vector<int>(), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(one["text"].sizes(), IntList({3, 1}));
    expect_error<ValueError>([&] { one["label"]; }, {"'label'", "text, length"});
  }
}

TEST(Loader, CollatesByHandAndChangesBatches) {
  const auto ragged = [](std::vector<Sample>& samples) {
    Batch batch;
    batch.add("count", tensor(static_cast<std::int64_t>(samples.size())));
    batch.add("first", samples[0].tensor(0));
    return batch;
  };
  const auto negate = [](Batch& batch, Random& random) {
    batch["count"] = batch["count"] * -1 - static_cast<double>(random.below(1));
  };
  for (const int workers : {0, 2, kAuto}) {
    const DataLoader loader(
        std::make_shared<Squares>(),
        {.batch_size = 4, .num_workers = workers, .collate = ragged, .batch_transform = negate});
    std::vector<int> counts;
    for (auto& [count, first] : loader.epoch(0)) counts.push_back(count.item<int>());
    EXPECT_EQ(counts, (std::vector<int>{-4, -4, -2}));
  }
}

TEST(Loader, SizesAndDropLast) {
  const auto set = noise();
  EXPECT_EQ(DataLoader(set, {.batch_size = 8}).size(), 7);
  EXPECT_EQ(DataLoader(set, {.batch_size = 8}).samples(), kCount);
  const DataLoader dropping(set, {.batch_size = 8, .drop_last = true});
  EXPECT_EQ(dropping.size(), 6);
  EXPECT_EQ(dropping.samples(), 48);
  const DataLoader whole(set, {.batch_size = INT64_MAX});
  EXPECT_EQ(whole.size(), 1);
  for (auto& [input, target] : whole.epoch(0)) EXPECT_EQ(input.size(0), kCount);
  std::int64_t batches = 0;
  for (auto& [input, target] : dropping.epoch(0)) {
    EXPECT_EQ(input.size(0), 8);
    EXPECT_EQ(input.dtype(), kUInt8);  // nothing asked for numbers
    ++batches;
  }
  EXPECT_EQ(batches, 6);
}

/// Fails at some samples.
struct Faulty : Dataset {
  std::int64_t size() const override { return 10; }
  Sample get(std::int64_t i) const override {
    if (i == 3) throw IoError("it is gone");
    if (i == 8) throw 42;
    return {i};
  }
  std::string source(std::int64_t i) const override { return "file" + std::to_string(i); }
};

TEST(Loader, ErrorsNameTheSampleAndTheEpochGoesOn) {
  for (const int workers : {0, 1, 3, kAuto}) {
    const DataLoader loader(std::make_shared<Faulty>(), {.batch_size = 4, .num_workers = workers});
    Epoch epoch = loader.epoch(0);
    Batch batch;
    expect_error<SampleError>([&] { epoch.next(batch); }, {"sample 3", "file3", "it is gone"});
    ASSERT_TRUE(epoch.next(batch));
    EXPECT_EQ(batch[0].to_vector<int>(), (std::vector<int>{4, 5, 6, 7}));
    expect_error<SampleError>([&] { epoch.next(batch); }, {"sample 8", "file8"});
    EXPECT_FALSE(epoch.next(batch));
  }
}

TEST(Loader, LeavesOutWhatCannotBeRead) {
  for (const int workers : {0, 2, kAuto}) {
    const DataLoader loader(std::make_shared<Faulty>(),
                            {.batch_size = 4, .num_workers = workers, .skip_errors = true});
    EXPECT_EQ(drain(loader.epoch(0)), (std::vector<double>{3, 0, 1, 2, 4, 4, 5, 6, 7, 1, 9}));
  }
}

TEST(Loader, SamplesThatDoNotFitAreNamed) {
  struct Ragged : Dataset {
    std::int64_t size() const override { return 4; }
    Sample get(std::int64_t i) const override { return {zeros({i == 2 ? 3 : 2})}; }
  };
  const DataLoader loader(std::make_shared<Ragged>(), {.batch_size = 4, .num_workers = 0});
  Batch batch;
  expect_error<SampleError>([&] { loader.epoch(0).next(batch); }, {"sample 2", "[3]", "[2]"});

  struct Swapped : Dataset {
    std::int64_t size() const override { return 2; }
    Sample get(std::int64_t i) const override {
      if (i == 0) return {Sample::Field{"a", i}, Sample::Field{"b", i}};
      return {Sample::Field{"b", i}, Sample::Field{"a", i}};
    }
  };
  const DataLoader swapped(std::make_shared<Swapped>(), {.batch_size = 2, .num_workers = 0});
  expect_error<SampleError>([&] { swapped.epoch(0).next(batch); },
                            {"sample 1", "'b'", "'a'", "same order"});

  struct Elsewhere : Dataset {
    std::int64_t size() const override { return 2; }
    Sample get(std::int64_t) const override { return {zeros({2}).to(kNull)}; }
  };
  const DataLoader elsewhere(std::make_shared<Elsewhere>(), {.num_workers = 0});
  expect_error<SampleError>([&] { elsewhere.epoch(0).next(batch); },
                            {"sample 0", "null", "host memory"});
}

/// Hangs at one sample until it is let go.
struct Hanging : Dataset {
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  mutable bool released = false;

  std::int64_t size() const override { return 8; }
  Sample get(std::int64_t i) const override {
    if (i == 5) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return released; });
    }
    return {i};
  }
  std::string source(std::int64_t) const override { return "/slow/disk"; }
  void release() const {
    const std::lock_guard lock(mutex);
    released = true;
    changed.notify_all();
  }
};

TEST(Loader, AHungReadIsNamedAndDoesNotHoldUpTheEnd) {
  const auto set = std::make_shared<Hanging>();
  const DataLoader loader(set, {.batch_size = 2, .num_workers = 1, .timeout = 0.05});
  const auto start = std::chrono::steady_clock::now();
  {
    Epoch epoch = loader.epoch(0);
    Batch batch;
    ASSERT_TRUE(epoch.next(batch));
    ASSERT_TRUE(epoch.next(batch));
    expect_error<SampleError>([&] { epoch.next(batch); }, {"sample 5", "/slow/disk", "0.05"});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  set->release();
  EXPECT_EQ(drain(loader.epoch(0)).size(), 4u + 8u);
}

TEST(Loader, AnEpochThatWasMovedAwayIsAnError) {
  const DataLoader loader(noise(), {.batch_size = 4});
  Epoch epoch = loader.epoch(0);
  const Epoch other = std::move(epoch);
  Batch batch;
  expect_error<ValueError>([&] { epoch.next(batch); }, {"Epoch::next", "moved away"});
  expect_error<ValueError>([&] { epoch.state_dict(); }, {"Epoch::state_dict", "moved away"});
  expect_error<ValueError>([&] { epoch.begin(); }, {"moved away"});
}

TEST(Loader, LeavingAnEpochEarlyStopsIt) {
  const auto set = noise();
  for (const int workers : {0, 2, kAuto}) {
    const DataLoader loader(set, augmented(workers));
    for (int i = 0; i < 20; ++i) drain(loader.epoch(i), i % 4);
    EXPECT_EQ(drain(loader.epoch(1)), epoch_of(set, augmented(0)));
  }
}

/// Tells whether the thread that made it reads a sample. Its reads wait, for which kAuto would like
/// more threads.
struct SameThread : Dataset {
  const std::thread::id maker = std::this_thread::get_id();

  std::int64_t size() const override { return 40; }
  Sample get(std::int64_t) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return {std::int64_t{std::this_thread::get_id() == maker}};
  }
};

/// Each sample goes through another loader, whose number of workers is automatic.
struct Nested : Dataset {
  std::int64_t size() const override { return 12; }
  Sample get(std::int64_t) const override {
    const DataLoader inner(std::make_shared<SameThread>());
    std::int64_t same = 0;
    for (const Batch& batch : inner.epoch(0)) same += batch[0].item<std::int64_t>();
    return {same};
  }
};

TEST(Loader, WithinAnothersDataSetMakesItsBatchesItself) {
  // It must not wait for threads that may all be waiting for it.
  const DataLoader outer(std::make_shared<Nested>(), {.num_workers = 2});
  for (const Batch& batch : outer.epoch(0)) EXPECT_EQ(batch[0].item<std::int64_t>(), 40);
}

TEST(Loader, MemoryOfBatchesIsUsedAgain) {
  const auto set = noise();
  const DataLoader loader(
      set,
      {.batch_size = 8, .drop_last = true, .transform = transforms::ToTensor(), .num_workers = 0});
  std::set<const void*> places;
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (auto& [input, target] : loader.epoch(epoch)) places.insert(input.raw_data());
  }
  EXPECT_EQ(places.size(), 1u);
}

/// Counts up; shard s has 7 + 3 * s samples.
struct Counting : IterableDataset {
  std::int64_t shard_count;
  explicit Counting(std::int64_t shards) : shard_count(shards) {}
  std::int64_t shards() const override { return shard_count; }
  std::unique_ptr<Stream> open(std::int64_t shard, std::int64_t epoch) const override {
    struct Counter : Stream {
      std::int64_t next_value, end;
      bool next(Sample& sample) override {
        if (next_value == end) return false;
        sample = Sample{next_value++};
        return true;
      }
    };
    auto stream = std::make_unique<Counter>();
    stream->next_value = 1000 * epoch + 100 * shard;
    stream->end = stream->next_value + 7 + 3 * shard;
    return stream;
  }
};

TEST(Loader, StreamsAreReadInOrder) {
  const std::vector<double> one = {4, 1000, 1001, 1002, 1003, 3, 1004, 1005, 1006};
  const std::vector<double> two = {4,    1000, 1001, 1002, 1003, 4,    1100, 1101,
                                   1102, 1103, 3,    1004, 1005, 1006, 4,    1104,
                                   1105, 1106, 1107, 2,    1108, 1109};
  for (const int workers : {0, 1, 2, 5, kAuto}) {
    const auto stream_epoch = [&](std::int64_t shards) {
      const DataLoader loader(std::make_shared<Counting>(shards),
                              {.batch_size = 4, .num_workers = workers});
      return drain(loader.epoch(1));
    };
    EXPECT_EQ(stream_epoch(1), one) << workers;
    EXPECT_EQ(stream_epoch(2), two) << workers;
    DataLoader first(std::make_shared<Counting>(2), {.batch_size = 4, .num_workers = workers});
    auto values = drain(first.epoch(1), 3);
    DataLoader second(std::make_shared<Counting>(2), {.batch_size = 4, .num_workers = 2});
    second.load_state_dict(first.state_dict());
    const auto rest = drain(second.epoch(1));
    values.insert(values.end(), rest.begin(), rest.end());
    EXPECT_EQ(values, two) << workers;
  }
  const DataLoader saved(std::make_shared<Counting>(2), {.batch_size = 4});
  DataLoader larger(std::make_shared<Counting>(2), {.batch_size = 5});
  DataLoader wider(std::make_shared<Counting>(3), {.batch_size = 4});
  expect_error<ValueError>([&] { larger.load_state_dict(saved.state_dict()); },
                           {"batches of 4", "5 from 2"});
  expect_error<ValueError>([&] { wider.load_state_dict(saved.state_dict()); }, {"4 from 3"});
  const DataLoader loader(std::make_shared<Counting>(1), {.batch_size = 4});
  expect_error<ValueError>([&] { loader.size(); }, {"stream"});
}

TEST(Loader, StreamsThatFailAreNamedAndTheOthersGoOn) {
  struct Failing : Counting {
    using Counting::Counting;
    std::unique_ptr<Stream> open(std::int64_t shard, std::int64_t number) const override {
      struct Thrower : Stream {
        int left = 5;
        bool next(Sample& sample) override {
          if (left-- == 0) throw 42;
          sample = Sample{std::int64_t{left}};
          return true;
        }
      };
      if (shard == 1) return std::make_unique<Thrower>();
      return Counting::open(shard, number);
    }
  };
  for (const int workers : {0, 2}) {
    const DataLoader loader(std::make_shared<Failing>(2),
                            {.batch_size = 4, .num_workers = workers});
    Epoch epoch = loader.epoch(0);
    Batch batch;
    for (const std::int64_t size : {4, 4, 3}) {
      ASSERT_TRUE(epoch.next(batch));
      EXPECT_EQ(batch[0].size(0), size);
    }
    expect_error<SampleError>([&] { epoch.next(batch); }, {"sample 5 of shard 1", "std::exc"});
    EXPECT_FALSE(epoch.next(batch));
  }
}

TEST(Loader, RefusesPlansThatContradictThemselves) {
  struct Planned : BatchSampler {
    BatchPlan planned;
    explicit Planned(BatchPlan plan) : planned(std::move(plan)) {}
    std::int64_t size() const override { return planned.size(); }
    BatchPlan plan(std::int64_t) const override { return planned; }
  };
  const auto begin = [](BatchPlan plan) {
    DataLoader(noise(), {.batch_sampler = std::make_shared<Planned>(std::move(plan))}).epoch(0);
  };
  begin({.indices = {1, 2, 3}, .begins = {0, 2, 2, 3}});
  expect_error<ValueError>([&] { begin({.indices = {1}, .begins = {}}); }, {"0 begins"});
  expect_error<ValueError>([&] { begin({.indices = {1, 2}, .begins = {1, 2}}); }, {"start at 0"});
  expect_error<ValueError>([&] { begin({.indices = {1, 2}, .begins = {0, 2, 1}}); }, {"ascend"});
  expect_error<ValueError>([&] { begin({.indices = {1, 2}, .begins = {0, 3}}); }, {"2 indices"});
  expect_error<ValueError>(
      [&] {
        begin({.indices = {1}, .begins = {0, 1}, .positions = {0}});
      },
      {"1 positions"});
  expect_error<ValueError>(
      [&] {
        begin({.indices = {1}, .begins = {0, 1}, .offsets = {0, 0}});
      },
      {"2 offsets"});
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  const auto set = noise();
  const auto sampler = std::make_shared<SequentialSampler>(kCount);
  const auto fails = [&](const DataLoaderOptions& options, const char* word) {
    expect_error<ValueError>([&] { DataLoader(set, options); }, {word});
  };
  fails({.batch_size = 0}, "batch_size");
  fails({.num_workers = -2}, "num_workers");
  fails({.prefetch = 0}, "prefetch");
  fails({.timeout = -1}, "timeout");
  fails({.num_workers = 0, .timeout = 1}, "timeout of 1 s with num_workers = 0");
  fails({.rank = 2, .world_size = 2}, "rank 2");
  fails({.shuffle = true, .sampler = sampler}, "sampler");
  fails({.batch_size = 2,
         .batch_sampler = std::make_shared<LengthBucketSampler>(
             std::vector<std::int64_t>(kCount, 1), LengthBucketOptions{})},
        "batch sampler");
  expect_error<ValueError>([] { DataLoader(DatasetPtr(), {}); }, {"empty"});
  expect_error<ValueError>([&] { DataLoader(set).epoch(-1); }, {"-1"});
  expect_error<IndexError>(
      [&] { DataLoader(set, {.sampler = std::make_shared<SequentialSampler>(99)}).epoch(0); },
      {"sample 53", "52"});
}

TEST(Loader, WaitsForAnyTime) {
  const auto set = tensor_dataset({arange(8)});
  for (const double timeout : {1e10, HUGE_VAL}) {
    const auto slow = [](Sample&, Random&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    const DataLoader loader(
        set, {.batch_size = 4, .transform = slow, .num_workers = 1, .timeout = timeout});
    int batches = 0;
    for ([[maybe_unused]] const Batch& batch : loader.epoch(0)) ++batches;
    EXPECT_EQ(batches, 2);
  }
}

}  // namespace
}  // namespace facula::data
