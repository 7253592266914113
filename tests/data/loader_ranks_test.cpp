// Several ranks: together they deliver the batches of one, whatever the rest of the settings.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "tests/data/loader_epochs.h"

namespace facula::data {
namespace {

/// All numbers of the samples of some global batches, put together from the ranks' shares.
std::vector<double> global_batches(const DatasetPtr& set, DataLoaderOptions options,
                                   std::int64_t ranks, const StateDict* state = nullptr,
                                   std::int64_t batches = 99, StateDict* saved = nullptr) {
  std::vector<DataLoader> loaders;
  std::vector<Epoch> epochs;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    options.rank = rank;
    options.world_size = ranks;
    loaders.emplace_back(set, options);
    if (state) loaders.back().load_state_dict(*state);
  }
  for (const DataLoader& loader : loaders) epochs.push_back(loader.epoch(1));
  std::vector<double> values;
  for (std::int64_t b = 0; b < batches; ++b) {
    for (Epoch& epoch : epochs) {
      Batch batch;
      if (!epoch.next(batch)) return values;
      for (std::int64_t i = 0; i < batch[0].size(0); ++i) {
        const auto pixels = batch[0][i].to_vector<double>();
        values.insert(values.end(), pixels.begin(), pixels.end());
        values.push_back(batch[1][i].item());
      }
    }
  }
  if (saved) *saved = loaders[0].state_dict();
  return values;
}

/// Three batches by one number of ranks and workers, the others by another.
std::vector<double> interrupted(const DatasetPtr& set, const DataLoaderOptions& before,
                                std::int64_t ranks, const DataLoaderOptions& after,
                                std::int64_t later_ranks) {
  StateDict state;
  auto values = global_batches(set, before, ranks, nullptr, 3, &state);
  const auto rest = global_batches(set, after, later_ranks, &state);
  values.insert(values.end(), rest.begin(), rest.end());
  return values;
}

TEST(Loader, RanksShareTheSameGlobalBatchesForAnyWorkersAndPinning) {
  const auto set = noise();  // the last batch has 5 samples
  const auto expected = global_batches(set, augmented(0), 1);
  ASSERT_EQ(expected.size(), kCount * (3 * 8 * 9 + 1));
  CountingStaging staging;
  set_staging(&staging);
  for (const int workers : {0, 1, 2, 7, kAuto}) {
    for (const int pin : {0, 1}) {
      DataLoaderOptions options = augmented(workers);
      options.pin_memory = pin;
      for (const std::int64_t ranks : {1, 2, 3}) {
        EXPECT_EQ(global_batches(set, options, ranks), expected)
            << workers << " workers, pinning " << pin << ", " << ranks << " ranks";
        for (const std::int64_t later : {1, 2, 3}) {
          EXPECT_EQ(interrupted(set, options, ranks, augmented(2), later), expected)
              << workers << " workers, pinning " << pin << ", from " << ranks << " to " << later;
        }
      }
    }
  }
  set_staging(nullptr);
}

TEST(Loader, RanksShareTheBatchesOfEverySampler) {
  const auto set = noise();
  std::vector<double> weights(kCount);
  std::iota(weights.begin(), weights.end(), 1.0);
  std::vector<std::int64_t> lengths(kCount);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = static_cast<std::int64_t>(i * 7 % 11);
  }
  const auto with = [](std::shared_ptr<const Sampler> sampler) {
    DataLoaderOptions options = augmented(2);
    options.shuffle = false;
    options.sampler = std::move(sampler);
    return options;
  };
  DataLoaderOptions bucketed = with(nullptr);
  bucketed.batch_size = 1;
  bucketed.batch_sampler = std::make_shared<LengthBucketSampler>(
      lengths, LengthBucketOptions{.batch_size = kBatch, .group = 2, .seed = 3});
  // The second and third draw samples several times, each time augmented anew.
  const DataLoaderOptions all[] = {
      with(std::make_shared<WeightedRandomSampler>(weights, kCount, 4, false)),
      with(std::make_shared<WeightedRandomSampler>(weights, kCount, 4)),
      with(std::make_shared<SubsetRandomSampler>(std::vector<std::int64_t>(kCount, 7), 4)),
      with(std::make_shared<SubsetRandomSampler>(lengths, 4)), bucketed};
  for (const DataLoaderOptions& options : all) {
    const auto expected = global_batches(set, options, 1);
    ASSERT_EQ(expected.size(), kCount * (3 * 8 * 9 + 1));
    for (const std::int64_t ranks : {2, 3}) {
      EXPECT_EQ(global_batches(set, options, ranks), expected) << ranks << " ranks";
      for (const std::int64_t later : {1, 2, 3}) {
        EXPECT_EQ(interrupted(set, options, ranks, options, later), expected)
            << "from " << ranks << " to " << later << " ranks";
      }
    }
  }
}

TEST(Loader, ATailSmallerThanTheRanksIsFilledUp) {
  const auto set = noise(9);  // 8 and 1
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    DataLoaderOptions options = augmented(0);
    options.rank = rank;
    options.world_size = 3;
    std::vector<std::int64_t> sizes;
    const DataLoader loader(set, options);
    for (auto& [input, target] : loader.epoch(0)) sizes.push_back(input.size(0));
    EXPECT_EQ(sizes, (std::vector<std::int64_t>{rank == 0 ? 2 : 3, 1}));
    EXPECT_EQ(loader.samples(), sizes[0] + 1);
  }
}

}  // namespace
}  // namespace facula::data
