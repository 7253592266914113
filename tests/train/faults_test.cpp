// Disks that fail and processes that die while a checkpoint is written lose nothing.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <string_view>
#include <thread>

#include <facula/checkpoint.h>
#include <facula/error.h>

#include "faulty_calls.h"
#include "small_run.h"
#include "tests/io/test_files.h"
#include "train/checkpoint_folder.h"

namespace facula::train {
namespace {

using io::expect_error;
using io::TempFolder;

StateDict state_of(float value) {
  StateDict state;
  state.set("model.a", full({50}, value));
  state.set("model.b", full({3}, value, kFloat64));
  state.set("value", static_cast<double>(value));
  return state;
}

/// The value of a state that must be complete.
double value_in(const StateDict& state) {
  const double value = state.number("value");
  EXPECT_EQ(state.tensor("model.a").to_vector<float>(),
            std::vector<float>(50, static_cast<float>(value)));
  EXPECT_EQ(state.tensor("model.b").to_vector<double>(), std::vector<double>(3, value));
  return value;
}

int calls_of(const std::function<void()>& action) {
  const FaultyCalls calls([](int, const char*) { return Fault::none; }, 0);
  action();
  return calls.calls();
}

/// Runs `action` in a process of its own that ends at the given call.
void run_and_die(int number, Fault fault, const std::function<void()>& action) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const FaultyCalls calls([&](int n, const char*) { return n == number ? fault : Fault::none; },
                            0);
    action();
    ::_exit(3);  // it was to end before
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "call " << number;
}

TEST(Faults, OldOnesGoOnlyAfterTheNewOneIsDurable) {
  const TempFolder folder;
  CheckpointFolder checkpoints(folder.path(), 1, false);
  checkpoints.write(1, state_of(1), std::nullopt);
  std::string order;
  const FaultyCalls calls(
      [&](int, const char* call) {
        order += std::string(call) + " ";
        return Fault::none;
      },
      0);
  checkpoints.write(2, state_of(2), std::nullopt);
  EXPECT_EQ(order, "mkdir open open write write write fsync rename fsync unlink ");
}

TEST(Faults, ACrashAtAnyCallLeavesTheOldOrTheNewFile) {
  const TempFolder folder;
  const std::string path = folder / "a";
  const auto write_new = [&] { save_checkpoint(state_of(2), path); };
  save_checkpoint(state_of(1), path);
  const int calls = calls_of(write_new);
  EXPECT_GE(calls, 8);  // open, open, write x 3, fsync, rename, fsync
  int renamed = 0;
  for (int number = 1; number <= calls; ++number) {
    for (const Fault fault : {Fault::end_before, Fault::end_after}) {
      save_checkpoint(state_of(1), path);
      run_and_die(number, fault, write_new);
      const double value = value_in(load_checkpoint(path));
      EXPECT_TRUE(value == 1 || value == 2);
      renamed += value == 2;
    }
  }
  // After the rename, before and after the folder's flush.
  EXPECT_EQ(renamed, 3);
}

TEST(Faults, ACrashAtAnyCallLeavesAGoodNewestCheckpoint) {
  const TempFolder folder;
  const auto fill = [&](const std::string& path) {
    std::filesystem::create_directories(path);
    CheckpointFolder checkpoints(path, 2, true);
    checkpoints.write(1, state_of(1), Score{"accuracy", 0.9});
    checkpoints.write(2, state_of(2), std::nullopt);
    checkpoints.write(3, state_of(3), std::nullopt);
    return checkpoints;
  };
  CheckpointFolder counted = fill(folder / "count/checkpoints");
  const int calls = calls_of([&] { counted.write(4, state_of(4), std::nullopt); });
  for (int number = 1; number <= calls; ++number) {
    for (const Fault fault : {Fault::end_before, Fault::end_after}) {
      const std::string path =
          folder / ("run" + std::to_string(2 * number + (fault == Fault::end_after)));
      CheckpointFolder checkpoints = fill(path);
      run_and_die(number, fault, [&] { checkpoints.write(4, state_of(4), std::nullopt); });
      const auto files = checkpoints.files();
      ASSERT_GE(files.size(), 3u);
      for (const auto& file : files) {
        EXPECT_EQ(value_in(load_checkpoint(file.path)), static_cast<double>(file.step));
      }
      EXPECT_GE(files[0].step, 3);
      EXPECT_EQ(files.back().step, 1);  // the best
      EXPECT_LE(files.size(), 4u);
      std::filesystem::remove_all(path);
    }
  }
}

TEST(Faults, ShortAndInterruptedCallsAreMadeAgain) {
  const TempFolder folder;
  for (const Fault fault : {Fault::short_write, Fault::error}) {
    // Every second call; never the same one twice, or it would go on for ever.
    const FaultyCalls calls(
        [&](int number, const char*) { return number % 2 ? fault : Fault::none; }, EINTR);
    save_checkpoint(state_of(1), folder / "a");
  }
  EXPECT_EQ(value_in(load_checkpoint(folder / "a")), 1);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(Faults, AWriteOfNothingIsAnError) {
  const TempFolder folder;
  const io::SystemCalls usual = io::system_calls;
  io::system_calls.write = [](int, const void*, size_t) -> ssize_t { return 0; };
  EXPECT_THROW(save_checkpoint(state_of(1), folder / "a"), IoError);
  io::system_calls = usual;
  EXPECT_TRUE(folder.names().empty());
}

TEST(Faults, AFailureOfAnyCallKeepsTheOldFileAndSaysWhy) {
  const TempFolder folder;
  const std::string path = folder / "a";
  save_checkpoint(state_of(1), path);
  const int calls = calls_of([&] { save_checkpoint(state_of(1), path); });
  for (const int error : {ENOSPC, EIO}) {
    for (int failing = 1; failing <= calls; ++failing) {
      {
        const FaultyCalls faulty(
            [&](int number, const char*) { return number == failing ? Fault::error : Fault::none; },
            error);
        expect_error([&] { save_checkpoint(state_of(2), path); }, {folder.path(), "cannot"});
      }
      // Only when the folder cannot be flushed has the file been replaced.
      EXPECT_EQ(value_in(load_checkpoint(path)), failing == calls ? 2 : 1);
      EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
      save_checkpoint(state_of(1), path);
    }
  }
}

std::int64_t count_of(std::string_view text, std::string_view part) {
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; ++at) ++count;
  return count;
}

std::string weights_in(const std::string& folder) { return io::get(folder + "/model.safetensors"); }

TrainerOptions each_steps(const std::string& folder, std::int64_t steps) {
  return {.run_folder = folder, .checkpoints = {.every_steps = steps}, .start = Start::resume};
}

/// Checks that a run goes on with the checkpoints in `folder` to the weights of `reference`.
void expect_resumes(const std::string& folder, const std::string& reference) {
  testing::internal::CaptureStderr();
  SmallRun({}).fit({.run_folder = folder, .start = Start::resume});
  EXPECT_EQ(count_of(testing::internal::GetCapturedStderr(), "skipped"), 0);
  EXPECT_TRUE(weights_in(folder) == weights_in(reference));
}

TEST(Faults, ASingleFailureWhileTrainingCostsNothing) {
  const TempFolder folder;
  const int calls = calls_of([&] { SmallRun({}).fit(each_steps(folder / "whole", 4)); });
  EXPECT_GT(calls, 100);
  // A number that shares no factor with the calls of one checkpoint: all of them get their turn.
  for (int failing = 1; failing <= calls; failing += 13) {
    const std::string run = folder / "run";
    std::filesystem::remove_all(run);
    testing::internal::CaptureStderr();
    bool failed = false;
    {
      const FaultyCalls faulty(
          [&](int number, const char*) { return number == failing ? Fault::error : Fault::none; },
          failing % 2 ? ENOSPC : EIO);
      try {
        SmallRun({}).fit(each_steps(run, 4));
      } catch (const IoError&) {
        failed = true;  // at the start or at the end
      }
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_LE(count_of(said, "not written"), 1) << said;
    if (!failed) {
      EXPECT_TRUE(weights_in(run) == weights_in(folder / "whole")) << failing;
    }
    expect_resumes(run, folder / "whole");
  }
}

TEST(Faults, AFullDiskIsOneWarningAndAnErrorAtTheEnd) {
  const TempFolder folder;
  SmallRun({}).fit({.run_folder = folder / "whole"});
  const std::string run = folder / "run";
  std::atomic<bool> full = false;
  testing::internal::CaptureStderr();
  {
    const FaultyCalls faulty(
        [&](int, const char* call) {
          return full && std::string_view(call) == "write" ? Fault::error : Fault::none;
        },
        ENOSPC);
    TrainerOptions trainer = each_steps(run, 2);
    trainer.on_step = [&](const StepReport& report) { full = report.step >= 12; };
    expect_error([&] { SmallRun({}).fit(trainer); }, {"No space left", "free disk space"});
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(said, "a checkpoint is not written"), 1) << said;
  EXPECT_EQ(count_of(said, "training goes on"), 1) << said;
  CheckpointFolder checkpoints(run + "/checkpoints", 2, true);
  ASSERT_FALSE(checkpoints.files().empty());
  EXPECT_GE(checkpoints.files()[0].step, 2);
  expect_resumes(run, folder / "whole");
}

TEST(Faults, AFolderThatComesBackIsWrittenToAgain) {
  const TempFolder folder;
  SmallRun({}).fit({.run_folder = folder / "whole"});
  const std::string run = folder / "run";
  std::atomic<int> tried = 0, renamed = 0;
  const FaultyCalls calls(
      [&](int, std::string_view call) {
        tried += call == "mkdir";
        renamed += call == "rename";
        return Fault::none;
      },
      0);
  int before = 0;
  TrainerOptions trainer = each_steps(run, 2);
  trainer.on_step = [&](const StepReport& report) {
    // Training waits until the writer has tried in vain, and later until it has succeeded.
    const auto& awaited = report.step < 15 ? tried : renamed;
    for (int i = 0; report.step > 5 && i < 500 && awaited == before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (report.step == 5) {
      std::filesystem::rename(run, run + "-away");
      before = tried;
    } else if (report.step == 15) {
      std::filesystem::rename(run + "-away", run);
      before = renamed;
    }
  };
  testing::internal::CaptureStderr();
  SmallRun({}).fit(trainer);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(said, "a checkpoint is not written"), 1) << said;
  EXPECT_EQ(count_of(said, "being written again"), 1) << said;
  EXPECT_TRUE(weights_in(run) == weights_in(folder / "whole"));
  const std::string metrics = io::get(run + "/metrics.jsonl");
  EXPECT_EQ(count_of(metrics, "\n"), 3) << metrics;
}

TEST(Faults, ASlowDiskPostponesAndSaysSoOnce) {
  const TempFolder folder;
  SmallRun({}).fit({.run_folder = folder / "whole"});
  testing::internal::CaptureStderr();
  {
    const FaultyCalls slow(
        [](int, const char* call) {
          if (std::string_view(call) == "fsync") {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
          return Fault::none;
        },
        0);
    TrainerOptions trainer = each_steps(folder / "run", 1);
    trainer.checkpoints.every_epoch = false;
    SmallRun({}).fit(trainer);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(said, "postponed"), 1) << said;
  EXPECT_TRUE(weights_in(folder / "run") == weights_in(folder / "whole"));
}

}  // namespace
}  // namespace facula::train
