#include <facula/data/sampler.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include <facula/error.h>

#include "data/random_choice.h"
#include "tests/io/test_files.h"

namespace facula::data {
namespace {

using io::expect_error;
using Indices = std::vector<std::int64_t>;

TEST(Sampler, RandomOrdersAreNewPermutations) {
  const RandomSampler sampler(100, 7);
  const Indices first = sampler.order(0), second = sampler.order(1);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, RandomSampler(100, 7).order(0));
  EXPECT_NE(first, RandomSampler(100, 8).order(0));
  for (Indices order : {first, second}) {
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, SequentialSampler(100).order(0));
  }
  Indices subset = SubsetRandomSampler({5, 9, 2}, 1).order(3);
  std::sort(subset.begin(), subset.end());
  EXPECT_EQ(subset, (Indices{2, 5, 9}));
  expect_error<ValueError>([] { RandomSampler(-1, 0); }, {"RandomSampler", "-1"});
  expect_error<ValueError>([] { SequentialSampler(-2); }, {"SequentialSampler", "-2"});
}

TEST(Sampler, NumbersAreNotThoseOfAGenerator) {
  // A generator of this seed yields the blocks (i, 0).
  for (const std::uint64_t seed : {0, 7}) {
    for (std::int64_t i = 0; i < 4; ++i) {
      const PhiloxBlock own = random_block(seed, Purpose::shuffle, 0, i);
      const PhiloxBlock generator = philox4x32(static_cast<std::uint64_t>(i), 0, seed);
      EXPECT_NE(own.word[0], generator.word[0]);
    }
  }
}

TEST(Sampler, WeightsAreProbabilities) {
  const WeightedRandomSampler sampler({1, 0, 2, 5}, 80000, 3);
  EXPECT_TRUE(sampler.repeats());
  std::vector<double> count(4);
  for (const std::int64_t i : sampler.order(0)) ++count[static_cast<std::size_t>(i)];
  EXPECT_NEAR(count[0], 10000, 400);
  EXPECT_EQ(count[1], 0);
  EXPECT_NEAR(count[2], 20000, 500);
  EXPECT_NEAR(count[3], 50000, 600);

  // Without replacement the first of the draws follow the weights.
  double heavy_first = 0;
  for (std::int64_t epoch = 0; epoch < 4000; ++epoch) {
    const Indices order = WeightedRandomSampler({1, 3, 0}, 2, 11, false).order(epoch);
    EXPECT_EQ((std::set<std::int64_t>(order.begin(), order.end())), (std::set<std::int64_t>{0, 1}));
    heavy_first += order[0] == 1 ? 1 : 0;
  }
  EXPECT_NEAR(heavy_first, 3000, 150);
  for (const std::int64_t i : WeightedRandomSampler({5e-324, 0}, 100, 1).order(0)) EXPECT_EQ(i, 0);
  const WeightedRandomSampler tiny(std::vector<double>(10, 1e-320), 5, 1, false);
  EXPECT_NE(tiny.order(0), tiny.order(1));
  expect_error<ValueError>([] { WeightedRandomSampler({1, -1}, 1, 0); }, {"weight -1", "sample 1"});
  expect_error<ValueError>([] { WeightedRandomSampler({0, 0}, 1, 0); }, {"0 weights"});
  expect_error<ValueError>([] { WeightedRandomSampler({1, 0}, 2, 0, false); }, {"2 draws"});
}

TEST(Sampler, BucketsHoldSimilarLengths) {
  Indices lengths(1000);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = static_cast<std::int64_t>(i * 7919 % 500);
  }
  const LengthBucketSampler sampler(lengths, {.batch_size = 16, .group = 25, .seed = 2});
  const BatchPlan plan = sampler.plan(4);
  EXPECT_EQ(plan.size(), sampler.size());
  Indices seen = plan.indices;
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, SequentialSampler(1000).order(0));
  std::int64_t spread = 0;
  for (std::size_t b = 0; b + 1 < plan.begins.size(); ++b) {
    Indices batch;
    for (std::int64_t i = plan.begins[b]; i < plan.begins[b + 1]; ++i) {
      batch.push_back(lengths[static_cast<std::size_t>(plan.indices[static_cast<std::size_t>(i)])]);
    }
    const auto [low, high] = std::minmax_element(batch.begin(), batch.end());
    spread = std::max(spread, *high - *low);
  }
  EXPECT_LE(spread, 100);  // of 500; random batches spread over nearly all
  EXPECT_NE(plan.indices, sampler.plan(5).indices);

  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  for (const std::int64_t batch_size : {std::int64_t{16}, kHuge}) {
    // One group: sorted altogether.
    const LengthBucketSampler one(lengths, {.batch_size = batch_size, .group = kHuge});
    EXPECT_EQ(one.plan(0).size(), one.size());
    EXPECT_EQ(one.plan(0).indices.size(), 1000u);
  }
  EXPECT_EQ(LengthBucketSampler(lengths, {.batch_size = 999, .drop_last = true}).size(), 1);
  EXPECT_EQ(LengthBucketSampler({}, {.batch_size = 4}).plan(0).size(), 0);
}

/// Batches of given sizes over 0, 1, 2, ...
struct Fixed : BatchSampler {
  Indices sizes;
  explicit Fixed(Indices wanted) : sizes(std::move(wanted)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(sizes.size()); }
  BatchPlan plan(std::int64_t) const override {
    BatchPlan plan;
    for (const std::int64_t size : sizes) plan.begins.push_back(plan.begins.back() + size);
    plan.indices.resize(static_cast<std::size_t>(plan.begins.back()));
    std::iota(plan.indices.begin(), plan.indices.end(), std::int64_t{0});
    return plan;
  }
};

TEST(Sampler, SharesAreDisjointAndEven) {
  const auto batches = std::make_shared<Fixed>(Indices{8, 5, 2});
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    std::vector<Indices> together(3);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan = DistributedSampler(batches, rank, ranks).plan(0);
      ASSERT_EQ(plan.size(), 3);
      for (std::size_t b = 0; b < 3; ++b) {
        const Indices share(plan.indices.begin() + plan.begins[b],
                            plan.indices.begin() + plan.begins[b + 1]);
        const auto count = static_cast<std::int64_t>(share.size());
        EXPECT_GE(count, 1);
        EXPECT_LE(std::abs(count * ranks - batches->sizes[b]), ranks);
        together[b].insert(together[b].end(), share.begin(), share.end());
      }
    }
    EXPECT_EQ(together[0], (Indices{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(together[1], (Indices{8, 9, 10, 11, 12}));
    if (ranks <= 2) {
      EXPECT_EQ(together[2], (Indices{13, 14}));
    }
    if (ranks == 5) {
      EXPECT_EQ(together[2], (Indices{13, 14, 13, 14, 13}));
    }
  }
  expect_error<ValueError>([&] { DistributedSampler(batches, 3, 3); }, {"rank 3 of 3"});
  expect_error<ValueError>([&] { DistributedSampler(nullptr, 0, 3); }, {"null"});
}

TEST(Sampler, SharesKnowTheirPlaceInTheGlobalBatch) {
  const auto batches = std::make_shared<Fixed>(Indices{8, 0, 5, 2});
  for (const std::int64_t rank : {0, 1, 2}) {
    const BatchPlan plan = DistributedSampler(batches, rank, 3).plan(0);
    EXPECT_EQ(plan.positions, (Indices{0, 8, 8, 13, 15}));
    ASSERT_EQ(plan.offsets.size(), 4u);
    for (std::size_t b = 0; b < 4; ++b) {
      const auto begin = static_cast<std::size_t>(plan.begins[b]);
      if (plan.begins[b] == plan.begins[b + 1]) continue;
      EXPECT_EQ(plan.positions[b] + plan.offsets[b], plan.indices[begin]);
    }
    EXPECT_EQ(plan.begins[1], plan.begins[2]);  // of nothing, everybody gets nothing
  }
}

TEST(Sampler, SubsetsMayNameSamplesTwice) {
  EXPECT_FALSE(SubsetRandomSampler({5, 9, 2}, 1).repeats());
  EXPECT_TRUE(SubsetRandomSampler({5, 9, 5}, 1).repeats());
}

}  // namespace
}  // namespace facula::data
