// Loaders in the child of a fork().
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include <facula/error.h>

#include "tests/data/loader_epochs.h"
#include "tests/process/in_a_child.h"

#if defined(FACULA_FORKS_WITH_THREADS)
namespace facula::data {
namespace {

TEST(LoaderFork, LoadersWorkInTheChild) {
  for (const int workers : {0, 2, kAuto}) {
    const DataLoader loader(noise(), augmented(workers));
    const std::vector<double> expected = drain(loader.epoch(1));
    EXPECT_TRUE(in_a_child([&] { return drain(loader.epoch(1)) == expected; })) << workers;
    EXPECT_TRUE(in_a_child([&] {
      return drain(DataLoader(noise(), augmented(3)).epoch(1)) == expected;
    })) << workers;
    EXPECT_EQ(drain(loader.epoch(1)), expected) << workers;
  }
}

TEST(LoaderFork, EpochsWithThreadsStayWithTheParent) {
  const std::vector<double> expected = epoch_of(noise(), augmented(0));
  for (int i = 0; i < 20; ++i) {  // the fork meets the threads at one thing or another
    std::optional<Epoch> epoch = DataLoader(noise(), augmented(2)).epoch(1);
    Batch batch;
    ASSERT_TRUE(epoch->next(batch));
    EXPECT_TRUE(in_a_child([&] {
      bool refused = false;
      try {
        epoch->next(batch);
      } catch (const Error& error) {
        refused = std::string(error.what()).find("before fork()") != std::string::npos;
      }
      epoch.reset();
      return refused && epoch_of(noise(), augmented(2)) == expected;
    }));
    while (epoch->next(batch)) {
    }
  }
}

TEST(LoaderFork, WhatTheParentIsCachingIsReadByTheChild) {
  struct Slow : Dataset {
    std::int64_t size() const override { return 12; }
    Sample get(std::int64_t i) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return {i};
    }
  };
  const DataLoader loader(cached(std::make_shared<Slow>()), {.num_workers = 2});
  Epoch epoch = loader.epoch(0);
  Batch batch;
  ASSERT_TRUE(epoch.next(batch));
  EXPECT_TRUE(in_a_child([&] {
    std::int64_t right = 0;
    for (const Batch& each : loader.epoch(1)) right += each[0].item<std::int64_t>() == right;
    return right == 12;
  }));
  while (epoch.next(batch)) {
  }
  EXPECT_EQ(batch.size(), 0u);
}

TEST(LoaderFork, EpochsWithoutThreadsGoOnInBoth) {
  const DataLoader loader(noise(), augmented(0));
  Epoch running = loader.epoch(1);
  Batch first;
  ASSERT_TRUE(running.next(first));
  EXPECT_TRUE(in_a_child([&] {
    std::size_t rest = 0;
    for (Batch batch; running.next(batch);) ++rest;
    return rest == 6;
  }));
  std::size_t rest = 0;
  for (Batch batch; running.next(batch);) ++rest;
  EXPECT_EQ(rest, 6u);
}

}  // namespace
}  // namespace facula::data
#endif
