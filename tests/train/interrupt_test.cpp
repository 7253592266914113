#include <facula/train.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <facula/safetensors.h>

#include "tests/io/test_files.h"
#include "tests/support/expect.h"
#include "tests/train/classifier.h"

namespace facula::train {
namespace {

using io::TempFolder;

/// Ignores nothing, unlike SIG_IGN, and does nothing.
void formerly(int) {}

TEST(Interrupt, EndsAfterTheStep) {
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const TempFolder folder;
  std::int64_t steps = 0;
  Trainer trainer(model, optimizer,
                  {.epochs = 100, .run_folder = folder / "run", .on_step = [&](const StepReport&) {
                     if (++steps == 6) std::raise(SIGINT);
                   }});
  const auto former = std::signal(SIGINT, formerly);
  const Result result = trainer.fit(loader_of(rows(64)));
  EXPECT_EQ(std::signal(SIGINT, former), formerly);  // the former handler is back
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(result.epochs.size(), 1u);  // the second one is incomplete
  Classifier restored;
  restored.load_state_dict(load_safetensors(folder / "run/model.safetensors"));
  EXPECT_EQ(restored.output.weight.to_vector<float>(), model.output.weight.to_vector<float>());
}

// The first run ends before the second; the signal after that stops the second, and the handler of
// before is back when it has ended.
TEST(Interrupt, SignalsReachTheRunsOfAllThreads) {
  const auto former = std::signal(SIGINT, formerly);
  std::atomic<int> stage = 0;
  const auto run = [&](std::int64_t epochs, const std::function<void(const StepReport&)>& on_step) {
    Classifier model;
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    return Trainer(model, optimizer, {.epochs = epochs, .on_step = on_step})
        .fit(loader_of(rows(16)));
  };
  const auto await = [&](int wanted) {
    while (stage < wanted) std::this_thread::yield();
  };
  Result second;
  std::thread other;
  const Result first = run(1, [&](const StepReport&) {
    other = std::thread([&] {
      second = run(1000, [&](const StepReport& report) {
        if (report.step == 1) stage = 1;
        if (report.step == 1) await(2);
        if (report.step == 3) std::raise(SIGINT);
      });
    });
    await(1);
  });
  stage = 2;
  other.join();
  EXPECT_FALSE(first.interrupted);
  EXPECT_EQ(second.steps, 3);
  EXPECT_EQ(second.signal, SIGINT);
  EXPECT_EQ(std::signal(SIGINT, former), formerly);
}

// A run that begins while another ends at a signal has signals of its own.
TEST(Interrupt, RunsThatBeginLaterNoteTheirOwnSignal) {
  const auto former = std::signal(SIGINT, formerly);
  const auto run = [](const std::function<void(const StepReport&)>& on_step) {
    Classifier model;
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    return Trainer(model, optimizer, {.epochs = 100, .on_step = on_step}).fit(loader_of(rows(16)));
  };
  Result later;
  const Result first = run([&](const StepReport&) {
    std::raise(SIGINT);
    later = run([](const StepReport& report) {
      if (report.step == 2) std::raise(SIGINT);
    });
  });
  EXPECT_EQ(first.steps, 1);
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(later.steps, 2);
  EXPECT_EQ(later.signal, SIGINT);
  EXPECT_EQ(std::signal(SIGINT, former), formerly);
}

// Whoever reads the progress may hang or have ended, as `tee` does at the same Ctrl-C.
TEST(Interrupt, TheCheckpointComesBeforeTheLineOfTheEpoch) {
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const TempFolder folder;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  const std::vector<char> much(4096);
  while (::write(ends[1], much.data(), much.size()) > 0) {
  }
  ::fcntl(ends[1], F_SETFL, 0);  // a write waits for room now
  std::fflush(stdout);
  const int before = ::dup(1);
  ::dup2(ends[1], 1);
  ::close(ends[1]);
  bool saved = false;
  std::thread reader([&] {
    const std::string file = folder / "run/checkpoints/checkpoint-000000004.safetensors";
    for (int i = 0; i < 500 && !saved; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      saved = std::filesystem::exists(file);
    }
    std::vector<char> read(4096);
    while (::read(ends[0], read.data(), read.size()) > 0) {
    }
  });
  const auto former = std::signal(SIGINT, formerly);
  Trainer trainer(model, optimizer,
                  {.run_folder = folder / "run",
                   .progress = Progress::standard_output,
                   .on_step = [](const StepReport& report) {
                     if (report.step == 4) std::raise(SIGINT);  // the last one of its epoch
                   }});
  const Result result = trainer.fit(loader_of(rows(64)));
  std::fflush(stdout);
  ::dup2(before, 1);  // closes the pipe, so that the reader ends
  ::close(before);
  reader.join();
  ::close(ends[0]);
  std::signal(SIGINT, former);
  EXPECT_TRUE(saved);
  EXPECT_EQ(result.signal, SIGINT);
  EXPECT_EQ(result.epochs.size(), 1u);
}

// A signal while the run begins, where the model is put into training mode.
TEST(Interrupt, WithoutAStepThereAreNoResults) {
  struct Raising : Classifier {
    bool armed = false;
    void list_children(std::vector<nn::Module*>& children) const override {
      if (armed) std::raise(SIGINT);
      Classifier::list_children(children);
    }
  } model;
  const TempFolder folder;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  Trainer trainer(model, optimizer, {.run_folder = folder / "run"});
  model.eval();
  model.armed = true;
  const Result result = trainer.fit(loader_of(rows(32)));
  model.armed = false;
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.steps, 0);
  EXPECT_FALSE(result.resumable);
  EXPECT_FALSE(std::filesystem::exists(folder / "run/model.safetensors"));
  EXPECT_EQ(trainer.fit(loader_of(rows(32))).steps, 2);
}

TEST(Interrupt, SignalsThatAreIgnoredStaySo) {
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  for (const auto& [ignored, heeded] : {std::pair(SIGINT, SIGTERM), {SIGTERM, SIGINT}}) {
    const auto former = std::signal(ignored, SIG_IGN), other = std::signal(heeded, formerly);
    Trainer trainer(model, optimizer, {.epochs = 2, .on_step = [&](const StepReport& report) {
                                         if (report.step == 2) std::raise(ignored);
                                         if (report.step != 5) return;
                                         std::raise(heeded);
                                         std::raise(ignored);  // still, when the other would kill
                                       }});
    const Result result = trainer.fit(loader_of(rows(64)));
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.signal, heeded);
    EXPECT_EQ(result.steps, 5);
    EXPECT_EQ(std::signal(ignored, former), SIG_IGN);
    EXPECT_EQ(std::signal(heeded, other), formerly);
  }
}

}  // namespace
}  // namespace facula::train
