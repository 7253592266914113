// Training beside a checkpoint that is being written, where memory is short.
#include <facula/train.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <facula/error.h>
#include <facula/memory.h>

#include "tests/io/test_files.h"
#include "tests/support/memory_cap.h"
#include "tests/train/classifier.h"
#include "tests/train/faulty_calls.h"

namespace facula::train {
namespace {

using io::TempFolder;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Its one parameter takes 8 MiB, and so do its gradient and what an optimizer keeps of it.
struct Large : nn::Module {
  nn::Parameter weight{*this, "weight", zeros({2 * kMiB})};

  Tensor forward(const Tensor& x) const override { return (weight * weight + weight) * x.mean(); }
};

Result fit(nn::Module& model, const TrainerOptions& options, const data::DataLoader& loader) {
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  TrainerOptions whole = options;
  whole.epochs = 3;
  whole.accuracy = false;
  whole.loss = [](const Tensor& output, const Tensor&) { return output.square().mean(); };
  return Trainer(model, optimizer, whole).fit(loader);
}

Result fit(const TrainerOptions& options, std::int64_t samples = 32) {
  Large model;
  return fit(model, options, loader_of(rows(samples)));
}

class CheckpointMemory : public ::testing::Test {
  RestoreMemoryCap cap_;
};

template <class Train>
std::int64_t memory_of(const Train& train) {
  cpu::reset_peak_memory_stats();
  train();
  cpu::empty_cache();
  // What is reserved now is of small blocks, and stays.
  return cpu::max_memory_allocated() + cpu::memory_reserved() - cpu::memory_allocated();
}

std::int64_t memory_of_training() {
  return memory_of([] { fit({}); });
}

/// Blocks of 1 MiB, which no size class makes larger, as many as there is room for.
std::vector<Tensor> all_memory() {
  std::vector<Tensor> blocks;
  try {
    while (true) blocks.push_back(empty({kMiB}, kUInt8));
  } catch (const OutOfMemory&) {
    return blocks;
  }
}

/// Each flush takes ten milliseconds, several steps.
Fault slow_flush(int, const char* call) {
  if (std::string_view(call) == "fsync") std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return Fault::none;
}

TEST_F(CheckpointMemory, TrainingWaitsForTheWriterWhereBothDoNotFit) {
  const std::int64_t needed = memory_of_training();
  const TempFolder folder;
  const FaultyCalls slow(slow_flush, 0);
  for (const std::int64_t more : {2, 8, 14, 16}) {  // the snapshot has 16
    set_host_memory_cap(needed + more * kMiB);
    const Result result =
        fit({.run_folder = folder / std::to_string(more), .checkpoints = {.every_steps = 1}});
    EXPECT_EQ(result.steps, 6);
    EXPECT_TRUE(result.resumable);
  }
}

TEST_F(CheckpointMemory, SoDoesWhatNeedsMemoryOnceInAWhile) {
  constexpr std::int64_t kRare = 32 * kMiB;
  const std::int64_t needed = memory_of_training();
  const TempFolder folder;
  const FaultyCalls slow(slow_flush, 0);
  set_host_memory_cap(needed + kRare + 2 * kMiB);
  int rare = 0;
  const auto step = [&rare](const StepReport& report) {
    if (report.step % 4 == 0) rare += empty({kRare}, kUInt8).defined();
  };
  fit({.run_folder = folder / "run", .checkpoints = {.every_steps = 3}, .on_step = step}, 64);
  EXPECT_EQ(rare, 3);
}

/// The parameter and what the optimizer keeps of it take 32 MiB, and a step as much as its
/// gradient.
struct Still : nn::Module {
  nn::Parameter weight{*this, "weight", zeros({4 * kMiB})};

  Tensor forward(const Tensor& x) const override { return weight.sum() * x.mean(); }
};

TEST_F(CheckpointMemory, OtherThreadsWaitAlreadyWhileCopiesAreMade) {
  constexpr std::int64_t kBytes = 40 * kMiB;
  const auto train = [](const TrainerOptions& options) {
    Still model;
    return fit(model, options, loader_of(rows(64)));
  };
  const std::int64_t needed = memory_of([&] { train({}); });
  const TempFolder folder;
  set_host_memory_cap(needed + kBytes + 4 * kMiB);
  std::atomic<bool> over{false};
  std::int64_t failures = 0;
  std::thread other([&] {
    while (!over) {
      try {
        empty({kBytes}, kUInt8);
      } catch (const OutOfMemory&) {
        ++failures;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  EXPECT_EQ(train({.run_folder = folder / "run", .checkpoints = {.every_steps = 1}}).steps, 12);
  over = true;
  other.join();
  EXPECT_EQ(failures, 0);
}

// Nor do their writers wait for each other.
TEST_F(CheckpointMemory, RunsInSeveralThreadsEnd) {
  const TempFolder folder;
  set_host_memory_cap(memory_of_training() * 2 + 8 * kMiB);
  const data::DatasetPtr set = rows(96);
  std::vector<std::thread> threads;
  for (const char* name : {"a", "b"}) {
    threads.emplace_back([&, name] {
      Large model;
      try {
        fit(model,
            {.run_folder = folder / name,
             .checkpoints = {.every_steps = 1, .every_epoch = false},
             .stop_on_interrupt = false,
             .on_step = [](const StepReport&) { all_memory(); }},
            loader_of(set));
      } catch (const OutOfMemory&) {
        // The other one had all of it.
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CheckpointMemory, NoRoomForCopiesIsNeeded) {
  const TempFolder folder;
  set_host_memory_cap(memory_of_training() + 8 * kMiB);
  for (const bool every_epoch : {true, false}) {
    std::vector<Tensor> taken;
    const std::string run = folder / (every_epoch ? "epochs" : "end");
    fit({.run_folder = run,
         .checkpoints = {.every_epoch = every_epoch},
         .on_epoch = [&taken](const EpochReport& report) {
           if (report.epoch == 3) taken = all_memory();
         }});
    EXPECT_GT(taken.size(), 16u);  // where the snapshot might have been
    EXPECT_NE(io::get(run + "/checkpoints/checkpoint-000000006.safetensors"), "");
  }
}

TEST_F(CheckpointMemory, ResumingNeedsNoMoreThanTraining) {
  const TempFolder folder;
  const auto train = [](const TrainerOptions& options) {
    Still model;
    return fit(model, options, loader_of(rows(32)));
  };
  set_host_memory_cap(memory_of([&] { train({}); }) + 2 * kMiB);
  const Result first = train({.run_folder = folder / "run"});
  EXPECT_EQ(train({.run_folder = folder / "run", .start = Start::resume}).resumed_from,
            first.steps);
}

TEST_F(CheckpointMemory, WhatCannotHelpIsAnError) {
  const TempFolder folder;
  const FaultyCalls slow(slow_flush, 0);
  const auto step = [](const StepReport&) { empty({host_memory_cap()}, kUInt8); };
  EXPECT_THROW(
      fit({.run_folder = folder / "run", .checkpoints = {.every_steps = 1}, .on_step = step}),
      OutOfMemory);
}

// However many snapshots there have been.
TEST_F(CheckpointMemory, TrainingGoesOnBesideTheWriterWhereBothFit) {
  set_host_memory_cap(memory_of_training() + 20 * kMiB);  // the snapshot has 16
  const TempFolder folder;
  constexpr std::int64_t kSteps = 18, kSamples = kSteps * 16 / 3;  // in batches of 16, 3 epochs
  std::atomic<std::int64_t> step{0};
  std::atomic<bool> waited{false};
  const FaultyCalls until_the_next_step(
      [&](int, const char* call) {
        const std::int64_t seen = step;
        // After the last ones nothing comes any more.
        if (std::string_view(call) != "fsync" || seen < 1 || seen >= kSteps - 2) return Fault::none;
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        while (step == seen && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
        if (step == seen) waited = true;
        return Fault::none;
      },
      0);
  fit({.run_folder = folder / "run",
       .checkpoints = {.every_steps = 1, .every_epoch = false, .keep_best = false},
       .on_step = [&](const StepReport& report) { step = report.step; }},
      kSamples);
  EXPECT_FALSE(waited);
}

}  // namespace
}  // namespace facula::train
