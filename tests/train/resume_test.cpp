// A run that is ended at any step and resumed gives the bits of one that was not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <tuple>

#include <facula/backends.h>
#include <facula/checkpoint.h>
#include <facula/error.h>

#include "small_run.h"
#include "tests/io/test_files.h"
#include "train/checkpoint_folder.h"

namespace facula::train {
namespace {

using io::expect_error;
using io::TempFolder;

struct Killed {};

/// Runs until `step` and no further, without a clean end.
void run_until(std::int64_t step, const SmallRunOptions& options, TrainerOptions trainer) {
  trainer.on_step = [step](const StepReport& report) {
    if (report.step == step) throw Killed();
  };
  EXPECT_THROW(SmallRun(options).fit(std::move(trainer)), Killed);
}

TrainerOptions each_steps(const std::string& folder, std::int64_t steps,
                          Start start = Start::resume) {
  return {.run_folder = folder, .checkpoints = {.every_steps = steps}, .start = start};
}

std::string weights_in(const std::string& folder) { return io::get(folder + "/model.safetensors"); }

/// metrics.jsonl without the times.
std::string metrics_in(const std::string& folder) {
  std::string text;
  std::ifstream file(folder + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) text += line.substr(0, line.find(",\"seconds"));
  return text;
}

void expect_same_results(const std::string& folder, const std::string& reference) {
  EXPECT_FALSE(weights_in(reference).empty());
  EXPECT_TRUE(weights_in(folder) == weights_in(reference));
  EXPECT_EQ(metrics_in(folder), metrics_in(reference));
}

std::vector<std::string> checkpoint_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/checkpoints")) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void damage(const std::string& path) {
  std::string file = io::get(path);
  ASSERT_FALSE(file.empty()) << path;
  file.back() = static_cast<char>(file.back() ^ 1);
  io::put(path, file);
}

class ResumeTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ResumeTest, SameBitsWhereverItEndedWithAnyThreads) {
  const TempFolder folder;
  SmallRunOptions options{.optimizer = GetParam().first, .schedule = GetParam().second};
  SmallRun(options).fit({.run_folder = folder / "whole"});
  const std::pair<int, int> resources[] = {{2, 0}, {1, 2}, {3, -1}, {1, 0}};
  int turn = 0;
  for (const std::int64_t first : {1, 4, 10, 17, 29}) {
    const std::string run = folder / ("run" + std::to_string(first));
    for (const std::int64_t step : {first, first + 6, std::int64_t{30}}) {
      std::tie(options.threads, options.workers) = resources[turn++ % 4];
      if (step < 30) run_until(step, options, each_steps(run, 3));
    }
    std::tie(options.threads, options.workers) = resources[turn++ % 4];
    const Result result = SmallRun(options).fit(each_steps(run, 3));
    EXPECT_EQ(result.steps, 30);
    EXPECT_EQ(result.epochs.size(), 3u);
    expect_same_results(run, folder / "whole");
  }
  set_num_threads(1);
}

INSTANTIATE_TEST_SUITE_P(All, ResumeTest,
                         ::testing::Values(std::pair("sgd", "onecycle"),
                                           std::pair("sgd", "plateau"), std::pair("sgd", "both"),
                                           std::pair("adam", "none"), std::pair("adam", "plateau"),
                                           std::pair("adamw", "onecycle")));

TEST(Resume, BatchSamplersMayShareEpochsOutByRank) {
  const TempFolder folder;
  const auto all = std::make_shared<data::LengthBucketSampler>(
      std::vector<std::int64_t>(79, 1), data::LengthBucketOptions{.batch_size = 8, .seed = 3});
  const SmallRunOptions options{.batch_sampler =
                                    std::make_shared<data::DistributedSampler>(all, 1, 2)};
  SmallRun(options).fit({.run_folder = folder / "whole"});
  TrainerOptions trainer{.run_folder = folder / "run"};
  trainer.on_step = [](const StepReport& report) {
    if (report.step == 8) std::raise(SIGTERM);
  };
  SmallRun(options).fit(trainer);
  const Result result =
      SmallRun(options).fit({.run_folder = folder / "run", .start = Start::resume});
  EXPECT_EQ(result.resumed_from, 8);
  EXPECT_EQ(result.steps, 30);
  expect_same_results(folder / "run", folder / "whole");
}

TEST(Resume, WithinAnEpochBatchesMayBecomeLarger) {
  const TempFolder folder;
  const auto run = [&](std::int64_t batch, std::int64_t last_step) {
    TrainerOptions trainer{.run_folder = folder / "run", .start = Start::resume};
    trainer.on_step = [last_step](const StepReport& report) {
      if (report.step == last_step) std::raise(SIGTERM);
    };
    return SmallRun({.batch = batch}).fit(trainer);
  };
  EXPECT_EQ(run(8, 4).epochs.size(), 0u);
  // As many steps as an epoch of the larger batches has, but 31 of the 79 samples are left.
  EXPECT_EQ(run(16, 5).epochs.size(), 0u);
  const Result result = run(16, -1);
  EXPECT_EQ(result.epochs.size(), 3u);
  EXPECT_EQ(result.steps, 4 + 3 + 5 + 5);
}

TEST(Resume, TheTrainingLoaderMayServeEvaluations) {
  const TempFolder folder;
  SmallRun({}).fit({.run_folder = folder / "whole"});
  SmallRun({}).fit({.run_folder = folder / "validated"}, true);
  for (const bool validated : {false, true}) {
    // In the first epoch, whose number is that of evaluations, in another, and at an end.
    for (const std::int64_t step : {4, 14, 10, 20}) {
      const std::string run = folder / fmt::format("run{}{}", step, validated);
      SmallRun first({});
      const data::DataLoader copy = first.training();
      TrainerOptions trainer{.run_folder = run, .checkpoints = {.every_steps = 2}};
      trainer.on_step = [&](const StepReport& report) {
        evaluate(first.model(), report.step % 2 == 0 ? copy : first.training());
        if (report.step == step) std::raise(SIGTERM);
      };
      EXPECT_TRUE(first.fit(trainer, validated).interrupted);
      const Result rest = SmallRun({}).fit({.run_folder = run, .start = Start::resume}, validated);
      EXPECT_EQ(rest.resumed_from, step);
      EXPECT_EQ(rest.steps, 30);
      EXPECT_FALSE(rest.interrupted);
      expect_same_results(run, folder / (validated ? "validated" : "whole"));
    }
  }
}

/// Writes the run's newest checkpoint again with other numbers.
void rewrite_checkpoint(const std::string& run,
                        const std::vector<std::pair<std::string, std::int64_t>>& numbers) {
  const std::string path = run + "/checkpoints/" + checkpoint_names(run).back();
  StateDict changed = load_checkpoint(path);
  for (const auto& [name, number] : numbers) changed.set(name, number);
  save_checkpoint(changed, path);
}

TEST(Resume, ALoadersPositionThatContradictsTheProgressIsRefused) {
  const TempFolder folder;
  const std::string run = folder / "run";
  TrainerOptions trainer{.run_folder = run};
  trainer.on_step = [](const StepReport& report) {
    if (report.step == 4) std::raise(SIGTERM);
  };
  SmallRun({}).fit(trainer);
  const auto resume = [&] { SmallRun({}).fit({.run_folder = run, .start = Start::resume}); };
  rewrite_checkpoint(run, {{"loader.epoch", 1}});
  expect_error(resume, {"in epoch 1, but its loader stands in epoch 2"});
  rewrite_checkpoint(run, {{"loader.epoch", 0}});
  resume();
}

// The last step of an epoch is one like any other.
TEST(Resume, EpochsOfOneStepHaveCheckpoints) {
  const TempFolder folder;
  const std::string second = folder / "run/checkpoints/checkpoint-000000002.safetensors";
  TrainerOptions trainer{.run_folder = folder / "run",
                         .checkpoints = {.every_steps = 2, .every_epoch = false}};
  bool written = false;
  trainer.on_step = [&](const StepReport& report) {
    if (report.step != 3) return;
    for (int tries = 0; !written && tries < 5000; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      written = std::filesystem::exists(second);
    }
  };
  SmallRun({.samples = 9, .epochs = 3}).fit(trainer);
  EXPECT_TRUE(written);
}

TEST(Resume, CheckpointsOfOlderVersionsCanBeUsed) {
  const TempFolder folder;
  SmallRun({}).fit({.run_folder = folder / "whole"});
  for (const std::int64_t step : {4, 10, 13}) {
    const std::string run = folder / fmt::format("run{}", step);
    TrainerOptions trainer{.run_folder = run, .checkpoints = {.every_epoch = false}};
    trainer.on_step = [step](const StepReport& report) {
      if (report.step == step) std::raise(SIGTERM);
    };
    SmallRun({}).fit(trainer);
    const std::string path = run + "/checkpoints/" + checkpoint_names(run).back();
    const StateDict checkpoint = load_checkpoint(path);
    StateDict older = checkpoint;
    older.set("progress", StateDict());
    for (const auto& [name, value] : checkpoint.dict("progress").entries()) {
      if (name != "labels") older.set("progress." + name, value);
    }
    save_checkpoint(older, path);
    SmallRun({}).fit({.run_folder = run, .start = Start::resume});
    expect_same_results(run, folder / "whole");
  }
}

/// Ignores nothing, unlike SIG_IGN, and does nothing.
void formerly(int) {}

TEST(Resume, SignalsEndWithACheckpointOfTheirStep) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const TempFolder folder;
    SmallRun({}).fit({.run_folder = folder / "whole"});
    const std::string run = folder / "run";
    TrainerOptions trainer{.run_folder = run};
    trainer.on_step = [&](const StepReport& report) {
      if (report.step == 14) std::raise(signal);
    };
    const auto former = std::signal(signal, formerly);
    const Result result = SmallRun({}).fit(trainer);
    EXPECT_EQ(std::signal(signal, former), formerly);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.signal, signal);
    EXPECT_TRUE(result.resumable);
    EXPECT_EQ(checkpoint_names(run).back(), "checkpoint-000000014.safetensors");
    const Result rest = SmallRun({}).fit({.run_folder = run, .start = Start::resume});
    EXPECT_EQ(rest.resumed_from, 14);
    EXPECT_FALSE(rest.interrupted);
    expect_same_results(run, folder / "whole");
  }
}

TEST(Resume, ASignalAfterTheLastStepIsTold) {
  TrainerOptions trainer{.on_epoch = [](const EpochReport& report) {
    if (report.epoch == 3) std::raise(SIGTERM);
  }};
  const Result result = SmallRun({}).fit(trainer);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.signal, SIGTERM);
}

/// The first dimension of what it returns is not the batch's.
struct Tagger : nn::Module {
  nn::Linear linear{*this, "linear", {.in = 4, .out = 5}};
  Tensor forward(const Tensor& x) const override { return linear(x).reshape({-1, 5}); }
};

TEST(Resume, OutputsMayHaveAnotherFirstDimension) {
  const auto set = data::tensor_dataset({randn({60, 7, 4}), randint(0, 5, {60, 7})});
  const TempFolder folder;
  const auto fit = [&](const std::string& run, std::int64_t last, Start start) {
    manual_seed(1);
    Tagger model;
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    const data::DataLoader loader(set, {.batch_size = 8, .shuffle = true});
    TrainerOptions options{
        .epochs = 2,
        .loss = [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t.flatten()); },
        .accuracy = false,
        .run_folder = folder / run,
        .start = start,
        .on_step =
            [last](const StepReport& report) {
              if (report.step == last) std::raise(SIGTERM);
            }};
    return Trainer(model, optimizer, options).fit(loader);
  };
  EXPECT_EQ(fit("whole", 0, Start::fresh).epochs.size(), 2u);
  EXPECT_TRUE(fit("run", 3, Start::fresh).interrupted);
  EXPECT_EQ(fit("run", 0, Start::resume).resumed_from, 3);
  expect_same_results(folder / "run", folder / "whole");
}

TEST(Resume, ASignalDuringValidationIsHeededBeforeItsEnd) {
  const TempFolder folder;
  SmallRun({}).fit({.run_folder = folder / "whole"});
  TrainerOptions trainer{.run_folder = folder / "run"};
  trainer.on_step = [&](const StepReport& report) {
    if (report.step == 10) std::raise(SIGTERM);  // the last of the first epoch
  };
  const Result result = SmallRun({}).fit(trainer);
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(result.epochs.empty());
  SmallRun({}).fit({.run_folder = folder / "run", .start = Start::resume});
  expect_same_results(folder / "run", folder / "whole");
}

TEST(Resume, KeepsTheLastTwoAndTheBest) {
  const TempFolder folder;
  const std::string run = folder / "run";
  const Result result = SmallRun({.epochs = 8}).fit(each_steps(run, 7));
  std::int64_t best = 0;
  double accuracy = -1;
  for (const EpochReport& report : result.epochs) {
    if (report.validation->accuracy > accuracy) {
      accuracy = report.validation->accuracy;
      best = report.steps;
    }
  }
  std::vector<std::string> names = checkpoint_names(run);
  EXPECT_EQ(names.back(), "checkpoint-000000080.safetensors");
  EXPECT_TRUE(
      std::count(names.begin(), names.end(), fmt::format("checkpoint-{:09}.safetensors", best)))
      << best;
  EXPECT_LE(names.size(), 3u);
  EXPECT_GE(names.size(), 2u);
}

TEST(Resume, TheBestOfEarlierProcessesStays) {
  const TempFolder folder;
  CheckpointFolder first(folder.path(), 1, true);
  StateDict state;
  first.write(1, state, Score{"accuracy", 0.5});
  first.write(2, state, Score{"accuracy", 0.9});
  first.write(3, state, Score{"accuracy", 0.6});
  CheckpointFolder second(folder.path(), 1, true);
  second.resumed_from(3, first.best(), first.best_score());
  second.write(4, state, Score{"accuracy", 0.8});
  std::vector<std::int64_t> steps;
  for (const auto& file : second.files()) steps.push_back(file.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{4, 2}));
  second.write(5, state, Score{"loss", -3});  // another measure begins anew
  EXPECT_EQ(second.files().size(), 1u);
}

TEST(Resume, SkipsDamagedOnesAndSaysWhy) {
  const TempFolder folder;
  SmallRun({}).fit({.run_folder = folder / "whole"});
  const std::string run = folder / "run";
  run_until(25, {}, each_steps(run, 4));
  const auto names = checkpoint_names(run);
  ASSERT_GE(names.size(), 2u);
  const std::string newest = run + "/checkpoints/" + names.back();
  damage(newest);
  io::put(run + "/checkpoints/checkpoint-000000900.safetensors", "");
  testing::internal::CaptureStderr();
  const Result result = SmallRun({}).fit(each_steps(run, 4));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("skipped " + newest), std::string::npos) << said;
  EXPECT_NE(said.find("damaged: tensor"), std::string::npos) << said;
  EXPECT_NE(said.find("checkpoint-000000900"), std::string::npos) << said;
  EXPECT_LT(result.resumed_from, 24);
  EXPECT_GT(result.resumed_from, 0);
  expect_same_results(run, folder / "whole");
}

TEST(Resume, WithoutAUsableOneItIsAnError) {
  const TempFolder folder;
  const std::string run = folder / "run";
  SmallRun({.epochs = 1}).fit({.run_folder = run});
  for (const auto& name : checkpoint_names(run)) damage(run + "/checkpoints/" + name);
  expect_error([&] { SmallRun({}).fit({.run_folder = run, .start = Start::resume}); },
               {"none of the", "damaged", "--overwrite"});
  SmallRun({.epochs = 1}).fit({.run_folder = run, .start = Start::overwrite});
  EXPECT_EQ(SmallRun({}).fit({.run_folder = run, .start = Start::resume}).resumed_from, 10);
}

TEST(Resume, WithoutAnyItBegins) {
  const TempFolder folder;
  const Result result = SmallRun({}).fit({.run_folder = folder / "new", .start = Start::resume});
  EXPECT_EQ(result.resumed_from, 0);
  EXPECT_EQ(result.steps, 30);
}

TEST(Resume, AFreshRunRefusesTheFolderOfAnother) {
  const TempFolder folder;
  SmallRun({.epochs = 1}).fit({.run_folder = folder / "run"});
  expect_error<ValueError>([&] { SmallRun({}).fit({.run_folder = folder / "run"}); },
                           {folder / "run", "--resume", "--overwrite"});
  EXPECT_EQ(checkpoint_names(folder / "run").size(), 1u);
}

// A killed run without checkpoints has no weights either; one to resume begins anew.
TEST(Resume, AFreshRunRefusesTheMetricsOfAnother) {
  const TempFolder folder;
  const std::string run = folder / "run";
  const CheckpointOptions off = {.enabled = false};
  run_until(3, {}, {.run_folder = run, .checkpoints = off});  // no epoch is complete
  run_until(25, {}, {.run_folder = run, .checkpoints = off});
  const std::string metrics = io::get(run + "/metrics.jsonl");
  expect_error<ValueError>([&] { SmallRun({}).fit({.run_folder = run, .checkpoints = off}); },
                           {run, "results of an earlier run", "--overwrite"});
  EXPECT_FALSE(metrics.empty());
  EXPECT_EQ(io::get(run + "/metrics.jsonl"), metrics);
  for (const Start start : {Start::resume, Start::overwrite}) {
    std::filesystem::remove(run + "/model.safetensors");
    const Result result = SmallRun({}).fit({.run_folder = run, .checkpoints = off, .start = start});
    EXPECT_EQ(result.steps, 30);
  }
}

TEST(Resume, OtherOptionsAreAnErrorThatNamesThem) {
  const TempFolder folder;
  TrainerOptions trainer{.run_folder = folder / "run",
                         .run_options = {{"model", "small"}, {"seed", "1"}}};
  SmallRun({.epochs = 1}).fit(trainer);
  trainer.start = Start::resume;
  trainer.run_options[1].second = "2";
  expect_error<ValueError>([&] { SmallRun({}).fit(trainer); }, {"seed", "'1'", "'2'"});
  trainer.run_options[1] = {"dropout", "0.5"};
  expect_error<ValueError>([&] { SmallRun({}).fit(trainer); }, {"dropout", "not given"});
}

TEST(Resume, AnotherModelOrScheduleIsTold) {
  const TempFolder folder;
  SmallRun({.epochs = 1}).fit({.run_folder = folder / "run"});
  expect_error(
      [&] {
        SmallRun({.optimizer = "sgd"}).fit({.run_folder = folder / "run", .start = Start::resume});
      },
      {"none of the 1", "Adam"});
  expect_error(
      [&] {
        SmallRun({.schedule = "onecycle"})
            .fit({.run_folder = folder / "run", .start = Start::resume});
      },
      {"without a scheduler"});
  expect_error(
      [&] {
        SmallRun({.samples = 177}).fit({.run_folder = folder / "run", .start = Start::resume});
      },
      {"samples"});
}

TEST(Resume, OneRunAtATime) {
  const TempFolder folder;
  TrainerOptions trainer{.run_folder = folder / "run"};
  trainer.on_step = [&](const StepReport& report) {
    if (report.step != 3) return;
    expect_error([&] { SmallRun({}).fit({.run_folder = folder / "run", .start = Start::resume}); },
                 {"another run", folder / "run"});
  };
  EXPECT_EQ(SmallRun({}).fit(trainer).steps, 30);
}

TEST(Resume, RemovesWhatKilledRunsHaveLeft) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "run/checkpoints");
  io::put(folder / "run/.facula-1-0.tmp", "x");
  io::put(folder / "run/checkpoints/.facula-99-3.tmp", "x");
  io::put(folder / "run/checkpoints/notes.txt", "x");
  SmallRun({.epochs = 1}).fit({.run_folder = folder / "run"});
  EXPECT_FALSE(std::filesystem::exists(folder / "run/.facula-1-0.tmp"));
  EXPECT_EQ(checkpoint_names(folder / "run"),
            (std::vector<std::string>{"checkpoint-000000010.safetensors", "notes.txt"}));
}

TEST(Resume, ACompleteRunMayGoOnForMoreEpochs) {
  const TempFolder folder;
  SmallRun({.epochs = 5}).fit({.run_folder = folder / "whole"});
  SmallRun({.epochs = 2}).fit({.run_folder = folder / "run"});
  const Result again =
      SmallRun({.epochs = 2}).fit({.run_folder = folder / "run", .start = Start::resume});
  EXPECT_EQ(again.epochs.size(), 2u);
  EXPECT_FALSE(again.interrupted);
  SmallRun({.epochs = 5}).fit({.run_folder = folder / "run", .start = Start::resume});
  expect_same_results(folder / "run", folder / "whole");
}

TEST(Resume, CarriesTheProgramsOwnState) {
  const TempFolder folder;
  std::int64_t count = 0;
  TrainerOptions trainer{.run_folder = folder / "run", .start = Start::resume};
  trainer.on_epoch = [&](const EpochReport&) { ++count; };
  trainer.save_extra = [&] {
    StateDict state;
    state.set("count", count);
    return state;
  };
  trainer.load_extra = [&](const StateDict& state) { count = state.integer("count"); };
  SmallRun({.epochs = 2}).fit(trainer);
  count = 100;
  SmallRun({.epochs = 3}).fit(trainer);
  EXPECT_EQ(count, 3);
}

TEST(Resume, WithoutCheckpointsThereAreNone) {
  const TempFolder folder;
  SmallRun({}).fit({.run_folder = folder / "run", .checkpoints = {.enabled = false}});
  EXPECT_FALSE(std::filesystem::exists(folder / "run/checkpoints"));
  EXPECT_FALSE(weights_in(folder / "run").empty());
}

}  // namespace
}  // namespace facula::train
