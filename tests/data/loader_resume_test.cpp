// Going on from a saved position after other epochs, and of streams that fail.
#include <facula/data/data_loader.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include <facula/error.h>

#include "tests/data/loader_epochs.h"
#include "tests/io/test_files.h"

namespace facula::data {
namespace {

using io::expect_error;

TEST(LoaderResume, EpochsBeforeItLeaveALoadedPosition) {
  const auto set = noise();
  const auto expected = epoch_of(set, augmented(0), 3);
  DataLoader first(set, augmented(0));
  drain(first.epoch(3), 2);
  const StateDict saved = first.state_dict();
  const auto is_rest = [&](const std::vector<double>& values) {
    return values.size() < expected.size() &&
           std::ranges::equal(values, std::span(expected).last(values.size()));
  };
  DataLoader second(set, augmented(2));
  second.load_state_dict(saved);
  EXPECT_EQ(drain(second.epoch(0)), epoch_of(set, augmented(0), 0));  // an evaluation, say
  drain(second.epoch(2), 1);
  EXPECT_TRUE(is_rest(drain(second.epoch(3))));
  EXPECT_EQ(drain(second.epoch(3)), expected);  // it has served
  // What comes after it has passed it.
  second.load_state_dict(saved);
  drain(second.epoch(4), 1);
  EXPECT_EQ(drain(second.epoch(3)), expected);
}

TEST(LoaderResume, AnEpochThatCouldNotBeginLeavesALoadedPosition) {
  struct Shaky : Sampler {
    mutable int failures = 1;
    std::int64_t size() const override { return kCount; }
    std::vector<std::int64_t> order(std::int64_t epoch) const override {
      if (failures-- > 0) throw IoError("order is lost");
      return SequentialSampler(kCount).order(epoch);
    }
  };
  const auto set = noise();
  DataLoader first(set, {.batch_size = kBatch, .num_workers = 0});
  drain(first.epoch(0), 2);
  DataLoader second(set, {.batch_size = kBatch, .sampler = std::make_shared<Shaky>()});
  second.load_state_dict(first.state_dict());
  expect_error<IoError>([&] { second.epoch(0); }, {"order is lost"});
  Epoch epoch = second.epoch(0);
  EXPECT_EQ(epoch.state_dict().integer("position"), 2 * kBatch);
}

/// Shard s counts up from 100 s. Shard 1 fails at its sample `fails_at`.
struct Failing : IterableDataset {
  std::int64_t fails_at;
  explicit Failing(std::int64_t sample) : fails_at(sample) {}
  std::int64_t shards() const override { return 2; }
  std::unique_ptr<Stream> open(std::int64_t shard, std::int64_t) const override {
    struct Counter : Stream {
      std::int64_t shard, fails_at, count = 0;
      bool next(Sample& sample) override {
        if (shard == 1 && count == fails_at) throw IoError("the line is cut");
        if (count == 14) return false;
        sample = Sample{100 * shard + count++};
        return true;
      }
    };
    auto stream = std::make_unique<Counter>();
    stream->shard = shard;
    stream->fails_at = fails_at;
    return stream;
  }
};

TEST(LoaderResume, StreamsDoNotThrowAgainWhatTheyHaveThrown) {
  for (const int workers : {0, 2}) {
    const DataLoaderOptions options = {.batch_size = 4, .num_workers = workers};
    const DataLoader first(std::make_shared<Failing>(6), options);
    Epoch epoch = first.epoch(0);
    drain(std::move(epoch), 3);  // of shards 0, 1, 0
    Epoch again = first.epoch(0);
    Batch batch;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(again.next(batch));
    const StateDict before = again.state_dict();
    EXPECT_FALSE(before.contains("failed"));
    expect_error<SampleError>([&] { again.next(batch); }, {"sample 6 of shard 1", "cut"});
    const StateDict after = again.state_dict();
    const std::vector<double> rest = {4, 8, 9, 10, 11, 2, 12, 13};

    DataLoader second(std::make_shared<Failing>(6), options);
    second.load_state_dict(after);
    Epoch resumed = second.epoch(0);
    EXPECT_EQ(resumed.state_dict().integer("position"), 4);  // before its first batch, too
    EXPECT_EQ(drain(std::move(resumed)), rest) << workers;
    // Even if reading goes well now: the epoch is the same.
    DataLoader well(std::make_shared<Failing>(-1), options);
    well.load_state_dict(after);
    EXPECT_EQ(drain(well.epoch(0)), rest) << workers;
    // Twice resumed, the error is still known.
    second.load_state_dict(after);
    StateDict later;
    {
      Epoch twice = second.epoch(0);
      ASSERT_TRUE(twice.next(batch));
      later = twice.state_dict();
    }
    second.load_state_dict(later);
    EXPECT_EQ(drain(second.epoch(0)), (std::vector<double>{2, 12, 13})) << workers;
    // What was not yet thrown is, and so is a failure that is new.
    second.load_state_dict(before);
    Epoch earlier = second.epoch(0);
    expect_error<SampleError>([&] { earlier.next(batch); }, {"sample 6 of shard 1"});
    DataLoader worse(std::make_shared<Failing>(1), options);
    worse.load_state_dict(before);
    Epoch failing = worse.epoch(0);
    expect_error<SampleError>([&] { failing.next(batch); }, {"sample 1 of shard 1"});
    EXPECT_EQ(drain(std::move(failing)), rest) << workers;
  }
}

// The transform fails, the stream goes on: a read that fails later, further ahead, is news.
TEST(LoaderResume, OnlyFailedReadsAreLeftOutAgain) {
  DataLoaderOptions options = {.batch_size = 2, .num_workers = 0};
  options.transform = [](Sample& sample, Random&) {
    if (std::get<std::int64_t>(sample[0]) == 102) throw IoError("not this one");
  };
  const DataLoader first(std::make_shared<Failing>(-1), options);
  Epoch epoch = first.epoch(0);
  Batch batch;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(epoch.next(batch));
  expect_error<SampleError>([&] { epoch.next(batch); }, {"not this one"});
  DataLoader second(std::make_shared<Failing>(1), options);
  second.load_state_dict(epoch.state_dict());
  Epoch resumed = second.epoch(0);
  expect_error<SampleError>([&] { resumed.next(batch); }, {"sample 1 of shard 1", "cut"});
}

TEST(LoaderResume, TheLoaderStandsWhereTheEpochBegunLastDoes) {
  DataLoader loader(std::make_shared<Failing>(-1), {.batch_size = 2, .num_workers = 0});
  Epoch earlier = loader.epoch(0), later = loader.epoch(0);
  Batch batch;
  ASSERT_TRUE(later.next(batch));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(earlier.next(batch));
  EXPECT_EQ(loader.state_dict().integer("position"), 1);
  loader.load_state_dict(earlier.state_dict());
  ASSERT_TRUE(later.next(batch));
  EXPECT_EQ(loader.state_dict().integer("position"), 3);
}

TEST(LoaderResume, StreamsThatAreNoneAreNamed) {
  struct Null : Failing {
    std::int64_t count;
    explicit Null(std::int64_t count) : Failing(-1), count(count) {}
    std::int64_t shards() const override { return count; }
    std::unique_ptr<Stream> open(std::int64_t shard, std::int64_t epoch) const override {
      return shard == 0 ? Failing::open(shard, epoch) : nullptr;
    }
  };
  const DataLoader loader(std::make_shared<Null>(2), {.batch_size = 14, .num_workers = 0});
  Epoch epoch = loader.epoch(0);
  Batch batch;
  ASSERT_TRUE(epoch.next(batch));
  expect_error<SampleError>([&] { epoch.next(batch); }, {"shard 1", "open() returned null"});
  EXPECT_FALSE(epoch.next(batch));
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1} << 40}) {
    expect_error<ValueError>([&] { DataLoader(std::make_shared<Null>(count)); },
                             {std::to_string(count) + " shards", "1 to 1048576"});
  }
}

}  // namespace
}  // namespace facula::data
