#include <facula/train.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <facula/autograd.h>
#include <facula/error.h>
#include <facula/nn/layers.h>
#include <facula/safetensors.h>

#include "base/check.h"
#include "tests/io/test_files.h"
#include "tests/support/expect.h"
#include "tests/train/classifier.h"
#include "train/progress.h"

namespace facula::train {
namespace {

using io::expect_error;
using io::TempFolder;

TEST(Trainer, LearnsASmallSet) {
  const data::DatasetPtr set = rows(160);
  const auto [rest, held_out] = data::random_split(set, 0.2, 1);
  const data::DataLoader training = loader_of(rest), validation = loader_of(held_out);
  Classifier model;
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  std::vector<std::int64_t> steps;
  Trainer trainer(model, optimizer,
                  {.epochs = 25, .on_step = [&](const StepReport& r) { steps.push_back(r.step); }});
  const Result result = trainer.fit(training, &validation);

  ASSERT_EQ(result.epochs.size(), 25u);
  EXPECT_GT(result.epochs.front().training.loss, 0.8);
  const EpochReport& last = result.epochs.back();
  EXPECT_LT(last.training.loss, 0.1);
  EXPECT_GT(last.training.accuracy, 0.95);
  EXPECT_LT(last.validation->loss, 0.1);
  EXPECT_EQ(last.steps, 25 * 8);
  EXPECT_EQ(steps.size(), 25u * 8);
  EXPECT_GT(result.items_per_s, 0);
  EXPECT_FALSE(result.interrupted);
  EXPECT_TRUE(model.is_training());
}

TEST(Trainer, MetricsAreAveragesOverSamples) {
  struct Constant : nn::Module {
    nn::Parameter logits{*this, "logits", zeros({kClasses})};
    Tensor forward(const Tensor& images) const override {
      return logits.expand({images.size(0), kClasses});
    }
  };
  const data::DatasetPtr set = rows(20);  // one batch of 16 and one of 4
  Constant model;
  {
    const NoGradGuard no_grad;
    model.logits[1].fill_(2);
  }
  double loss = 0;
  std::int64_t correct = 0;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    const auto label = std::get<std::int64_t>(set->get(i)["label"]);
    loss += std::log(3 + std::exp(2.0)) - (label == 1 ? 2 : 0);
    correct += label == 1;
  }
  model.train();
  const Metrics metrics = evaluate(model, loader_of(set));
  EXPECT_NEAR(metrics.loss, loss / 20, 1e-6);
  EXPECT_NEAR(metrics.accuracy, static_cast<double>(correct) / 20, 1e-12);
  EXPECT_TRUE(model.is_training());
  EXPECT_FALSE(model.logits.grad().defined());
}

/// Samples of two tensors: the number of the sample is what both hold.
struct Pairs : data::Dataset {
  Pairs(Dims input, Dims target) : input(input), target(target) {}
  std::int64_t size() const override { return 8; }
  data::Sample get(std::int64_t i) const override {
    return {full(input, static_cast<double>(i)), full(target, i % 2, kInt64)};
  }
  const Dims input, target;
};

/// Its output has the input's size; the first class is always the greatest.
struct Scaled : nn::Module {
  nn::Parameter scale{*this, "scale", ones({1})};
  Tensor forward(const Tensor& x) const override { return x * scale; }
};

TEST(Trainer, AccuracyCountsEveryLabel) {
  Scaled model;
  optim::SGD optimizer(model.parameters(), {.lr = 1e-3});
  const data::DataLoader loader(std::make_shared<Pairs>(Dims{3, 4, 5}, Dims{4, 5}),
                                {.batch_size = 3});
  EXPECT_DOUBLE_EQ(evaluate(model, loader).accuracy, 0.5);
  const Result result = Trainer(model, optimizer).fit(loader, &loader);
  EXPECT_DOUBLE_EQ(result.epochs[0].training.accuracy, 0.5);
  EXPECT_DOUBLE_EQ(result.epochs[0].validation->accuracy, 0.5);
}

/// One logit for each sample, with targets of either shape.
TEST(Trainer, OneOutputHasALossAndNoAccuracy) {
  const Loss loss = [](const Tensor& output, const Tensor& target) {
    return binary_cross_entropy_with_logits(output.squeeze(1), target.to(kFloat32));
  };
  const TempFolder folder;
  Scaled model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.5});
  const data::DataLoader loader(std::make_shared<Pairs>(Dims{1}, Dims{}), {.batch_size = 4});
  const Metrics before = evaluate(model, loader, loss);
  EXPECT_FALSE(before.has_accuracy());
  EXPECT_EQ(before.str(), fmt::format("loss {:.4f}", before.loss));
  const Result result =
      Trainer(model, optimizer, {.epochs = 6, .loss = loss, .run_folder = folder / "run"})
          .fit(loader, &loader);
  std::int64_t best = 0;
  double least = before.loss;
  for (const EpochReport& report : result.epochs) {
    EXPECT_FALSE(report.training.has_accuracy());
    EXPECT_FALSE(report.validation->has_accuracy());
    if (report.validation->loss < least) best = report.steps;
    least = std::min(least, report.validation->loss);
  }
  EXPECT_TRUE(std::filesystem::exists(
      folder / fmt::format("run/checkpoints/checkpoint-{:09}.safetensors", best)))
      << best;
}

TEST(Trainer, OutputsWithoutClassesAreRefusedBeforeAnUpdate) {
  const Loss mean = [](const Tensor& output, const Tensor&) { return output.mean(); };
  const std::tuple<Dims, Dims, const char*> problems[] = {
      {{}, {}, "size [4]"}, {{3}, {2}, "size [4, 2]"}, {{3, 2}, {}, "size [4, 2]"}};
  for (const auto& [input, target, part] : problems) {
    Scaled model;
    optim::SGD optimizer(model.parameters(), {.lr = 1});
    const data::DataLoader loader(std::make_shared<Pairs>(input, target), {.batch_size = 4});
    EXPECT_ERROR(ShapeError, "evaluate: ", evaluate(model, loader, mean));
    expect_error<ShapeError>([&] { Trainer(model, optimizer, {.loss = mean}).fit(loader); },
                             {"Trainer: ", part});
    EXPECT_EQ(model.scale.item<double>(), 1);
  }
}

/// Targets of a regression are no shares of classes, whatever their shape.
TEST(Trainer, RegressionsHaveNoAccuracy) {
  struct Numbers : data::Dataset {
    explicit Numbers(Dims sizes) : sizes(sizes) {}
    std::int64_t size() const override { return 8; }
    data::Sample get(std::int64_t i) const override {
      return {ones(sizes), full(sizes, i % 4 * 0.5)};
    }
    const Dims sizes;
  };
  const Loss loss = [](const Tensor& output, const Tensor& target) {
    return mse_loss(output, target);
  };
  for (const Dims& sizes : {Dims{}, Dims{3}, Dims{2, 3}}) {
    Scaled model;
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    const data::DataLoader loader(std::make_shared<Numbers>(sizes), {.batch_size = 4});
    const Result result =
        Trainer(model, optimizer, {.epochs = 30, .loss = loss}).fit(loader, &loader);
    EXPECT_FALSE(result.epochs.back().training.has_accuracy());
    EXPECT_FALSE(result.epochs.back().validation->has_accuracy());
    EXPECT_NEAR(model.scale.item<double>(), 0.75, 1e-3);
    if (sizes.empty()) continue;
    EXPECT_EQ(evaluate(model, loader, loss, true).accuracy, 1);
  }
  const data::DataLoader loader(std::make_shared<Pairs>(Dims{}, Dims{}), {.batch_size = 4});
  Scaled model;
  const Loss mean = [](const Tensor& output, const Tensor&) { return output.mean(); };
  EXPECT_FALSE(evaluate(model, loader, mean, false).has_accuracy());
}

TEST(Trainer, RunsKeepToTheirFolderWhereverTheProcessGoes) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  const io::InFolder inside(folder.path());
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  Trainer(
      model, optimizer,
      {.epochs = 2,
       .run_folder = "run",
       .on_step = [&](const StepReport&) { std::filesystem::current_path(folder / "elsewhere"); }})
      .fit(loader_of(rows(32)));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "elsewhere"));
  EXPECT_TRUE(std::filesystem::exists(folder / "run/model.safetensors"));
}

TEST(Trainer, LossesThatAreNotOneNumberAreRefusedBeforeAnUpdate) {
  const Loss each = [](const Tensor& output, const Tensor& target) {
    return cross_entropy(output, target, {}, "none");
  };
  const Loss none = [](const Tensor&, const Tensor&) { return Tensor(); };
  Scaled model;
  optim::SGD optimizer(model.parameters(), {.lr = 1});
  const data::DataLoader loader(std::make_shared<Pairs>(Dims{2}, Dims{}), {.batch_size = 4});
  EXPECT_ERROR(ShapeError, "evaluate: the loss has size [4]", evaluate(model, loader, each));
  for (const Loss& loss : {each, none}) {
    EXPECT_ERROR(ShapeError, "Trainer: the loss has size ",
                 Trainer(model, optimizer, {.loss = loss}).fit(loader));
  }
  EXPECT_EQ(model.scale.item<double>(), 1);
}

TEST(Trainer, AnEpochMayHaveFewerBatches) {
  struct Gaps : Pairs {
    explicit Gaps(std::int64_t good) : Pairs({2}, {}), good(good) {}
    data::Sample get(std::int64_t i) const override {
      if (i >= good) throw IoError("gone");
      return Pairs::get(i);
    }
    std::int64_t good;
  };
  const auto fit = [](std::int64_t good) {
    Scaled model;
    optim::SGD optimizer(model.parameters(), {.lr = 1e-3});
    const data::DataLoader loader(std::make_shared<Gaps>(good),
                                  {.batch_size = 2, .skip_errors = true});
    return Trainer(model, optimizer, {.epochs = 3}).fit(loader);
  };
  const Result result = fit(4);  // two of four batches
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(result.epochs.size(), 3u);
  EXPECT_FALSE(result.interrupted);
  EXPECT_ERROR(ValueError, "no batch in epoch 1", fit(0));
}

TEST(Trainer, EvaluatesInEvalMode) {
  Classifier model;
  const data::DataLoader loader = loader_of(rows(64));
  EXPECT_EQ(evaluate(model, loader).loss, evaluate(model, loader).loss);  // no dropout
}

TEST(Trainer, EachModuleKeepsItsMode) {
  Classifier model;
  model.dropout.eval();  // and stays in eval mode, like frozen normalization
  const auto modes = [&] {
    return std::vector<bool>{model.is_training(), model.hidden.is_training(),
                             model.dropout.is_training()};
  };
  const std::vector<bool> before = {true, true, false};
  const data::DataLoader loader = loader_of(rows(32));
  evaluate(model, loader);
  EXPECT_EQ(modes(), before);
  EXPECT_THROW(evaluate(model, loader,
                        [](const Tensor& output, const Tensor&) {
                          return output.sum() * std::numeric_limits<double>::infinity();
                        }),
               ValueError);
  EXPECT_EQ(modes(), before);

  optim::SGD optimizer(model.parameters(), {.lr = 1e-3});
  std::vector<std::vector<bool>> training;
  Trainer trainer(model, optimizer, {.epochs = 2, .on_step = [&](const StepReport&) {
                                       training.push_back(modes());
                                     }});
  trainer.fit(loader, &loader);
  EXPECT_EQ(training, std::vector(4, before));
  model.eval();
  trainer.fit(loader);
  EXPECT_EQ(training.back(), std::vector<bool>({true, true, true}));
}

TEST(Trainer, EvaluationStopsAtALossThatIsNotFinite) {
  Classifier model;
  {
    const NoGradGuard no_grad;
    model.output.bias.fill_(std::numeric_limits<double>::quiet_NaN());
  }
  EXPECT_ERROR(ValueError, "evaluate: the loss of a batch is NaN",
               evaluate(model, loader_of(rows(64))));
}

// Sleeping takes as long as asked for at least, whatever else the machine does.
TEST(Trainer, TellsWhatTheLoaderTakes) {
  using Seconds = std::chrono::duration<double>;
  using std::chrono::milliseconds;
  const auto check = [](milliseconds loading, milliseconds computing) {
    const data::DataLoader loader(rows(16), {.batch_size = 4,
                                             .transform =
                                                 [&](data::Sample& sample, data::Random&) {
                                                   std::this_thread::sleep_for(loading);
                                                   sample.image().to_float();
                                                 },
                                             .num_workers = 0});
    Classifier model;
    optim::SGD optimizer(model.parameters(), {.lr = 1e-3});
    Trainer trainer(model, optimizer, {.on_step = [&](const StepReport&) {
                      std::this_thread::sleep_for(computing);
                    }});
    const auto begin = std::chrono::steady_clock::now();
    const double share = trainer.fit(loader).loader_share;
    const double all = Seconds(std::chrono::steady_clock::now() - begin).count();
    EXPECT_GE(share * all, Seconds(16 * loading).count() * 0.999);
    EXPECT_GE((1 - share) * all, Seconds(4 * computing).count() * 0.999);
  };
  check(milliseconds(10), milliseconds(10));
  check(milliseconds(1), milliseconds(100));
}

TEST(Trainer, StepsTheScheduler) {
  const data::DataLoader training = loader_of(rows(64));  // 4 steps
  for (const bool per_epoch : {false, true}) {
    Classifier model;
    optim::SGD optimizer(model.parameters(), {.lr = 1});
    optim::StepLR scheduler(optimizer, {.step_size = 1, .gamma = 0.5});
    std::vector<double> rates;
    Trainer trainer(model, optimizer,
                    {.epochs = 2,
                     .scheduler = &scheduler,
                     .step_scheduler_per_epoch = per_epoch,
                     .on_step = [&](const StepReport& report) { rates.push_back(report.lr); }});
    const Result result = trainer.fit(training);
    EXPECT_EQ(scheduler.last_epoch(), per_epoch ? 2 : 8);
    EXPECT_DOUBLE_EQ(rates[7], per_epoch ? 0.5 : 1.0 / 128);
    EXPECT_DOUBLE_EQ(result.epochs[1].lr, rates[7]);
  }
}

TEST(Trainer, SchedulerAndPlateauActTogether) {
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 1});
  optim::StepLR scheduler(optimizer, {.step_size = 1000});
  optim::ReduceLROnPlateau plateau(
      optimizer, {.patience = 0, .threshold = 1e9, .threshold_mode = "abs"});  // never good enough
  Trainer trainer(model, optimizer, {.epochs = 3, .scheduler = &scheduler, .plateau = &plateau});
  const Result result = trainer.fit(loader_of(rows(64)));
  EXPECT_DOUBLE_EQ(result.epochs[0].lr, 1);
  EXPECT_DOUBLE_EQ(result.epochs[1].lr, 1);  // the first epoch beats infinity
  EXPECT_DOUBLE_EQ(result.epochs[2].lr, 0.1);
}

TEST(Trainer, ClipsGradients) {
  const auto change = [](double norm) {
    Classifier model;
    const Tensor before = model.output.weight.clone().detach();
    optim::SGD optimizer(model.parameters(), {.lr = 1});
    Trainer(model, optimizer, {.clip_grad_norm = norm}).fit(loader_of(rows(16)));
    return (model.output.weight - before).abs().amax().item<double>();
  };
  EXPECT_GT(change(0), 1e-3);
  EXPECT_LT(change(1e-5), 1.1e-5);
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 1});
  EXPECT_THROW(Trainer(model, optimizer, {.clip_grad_norm = -1}), ValueError);
}

TEST(Trainer, StopsAtALossThatIsNotFinite) {
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 1e30});
  Trainer trainer(model, optimizer, {.epochs = 3});
  expect_error<ValueError>(
      [&] { trainer.fit(loader_of(rows(64))); },
      {"the loss is", "step 2", "epoch 1", "learning rate 1e+30", "last good loss", "at step 1"});
  Classifier broken;
  broken.output.bias.detach().fill_(std::nan(""));
  optim::SGD second(broken.parameters(), {.lr = 0.1});
  expect_error<ValueError>([&] { Trainer(broken, second, {}).fit(loader_of(rows(16))); },
                           {"the loss is NaN at step 1 (epoch 1) with learning rate 0.1. Lower"});
}

TEST(Trainer, WritesMetricsAndWeights) {
  const TempFolder folder;
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const data::DataLoader loader = loader_of(rows(64));
  Trainer trainer(model, optimizer, {.epochs = 3, .run_folder = folder / "a/b"});
  trainer.fit(loader, &loader);
  const std::string metrics = io::get(folder / "a/b/metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 3);
  for (const char* key : {"\"epoch\":3,\"steps\":12", "\"train_loss\":", "\"val_accuracy\":"}) {
    EXPECT_NE(metrics.find(key), std::string::npos) << key << " in " << metrics;
  }
  const StateDict weights = load_safetensors(folder / "a/b/model.safetensors");
  EXPECT_EQ(weights.tensor("hidden.weight").to_vector<float>(),
            model.hidden.weight.to_vector<float>());
}

TEST(Trainer, OverwritingRemovesTheWeightsOfTheRunBefore) {
  const TempFolder folder;
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const auto fit = [&](TrainerOptions options) {
    options.run_folder = folder / "run";
    return Trainer(model, optimizer, std::move(options)).fit(loader_of(rows(32)));
  };
  const std::string weights = folder / "run/model.safetensors";
  fit({.epochs = 1});
  EXPECT_TRUE(std::filesystem::exists(weights));
  bool there = true;
  fit({.epochs = 1, .start = Start::overwrite, .on_step = [&](const StepReport&) {
         there = std::filesystem::exists(weights);
       }});
  EXPECT_FALSE(there);
  EXPECT_TRUE(std::filesystem::exists(weights));
}

TEST(Trainer, NamesARunFolderThatCannotBeMade) {
  const TempFolder folder;
  io::put(folder / "file", "");
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  Trainer trainer(model, optimizer, {.run_folder = folder / "file/run"});
  expect_error([&] { trainer.fit(loader_of(rows(16))); },
               {"cannot create the folder '" + (folder / "file'"), "something else has that name"});
}

TEST(Trainer, RefusesWhatCannotBeTrained) {
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  EXPECT_THROW(Trainer(model, optimizer, {.epochs = 0}), ValueError);
  const data::DataLoader nothing(rows(8), {.batch_size = 16, .drop_last = true});
  expect_error<ValueError>([&] { Trainer(model, optimizer).fit(nothing); }, {"8 samples", "of 16"});
  expect_error<ValueError>([&] { evaluate(model, nothing); }, {"8 samples"});
  Classifier other;
  expect_error<ValueError>([&] { Trainer(other, optimizer).fit(loader_of(rows(16))); },
                           {"none of the optimizer's 4 parameters is the model's"});
}

TEST(ProgressDisplay, FormatsDurations) {
  EXPECT_EQ(format_duration(0.4), "0 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(std::nan("")), "0 s");
}

/// Images and labels, endlessly few.
struct Rows : data::IterableDataset {
  std::int64_t count = 10;
  std::unique_ptr<Stream> open(std::int64_t, std::int64_t) const override {
    struct Counter : Stream {
      std::int64_t left = 0;
      bool next(data::Sample& sample) override {
        if (left-- == 0) return false;
        sample = data::Sample{zeros({1, 4, 4}), std::int64_t{0}};
        return true;
      }
    };
    auto stream = std::make_unique<Counter>();
    stream->left = count;
    return stream;
  }
};

TEST(Trainer, EvaluatesStreams) {
  Classifier model;
  const auto rows_read = std::make_shared<Rows>();
  const data::DataLoader loader(rows_read, {.batch_size = 4});
  EXPECT_GT(evaluate(model, loader).loss, 0);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  EXPECT_EQ(Trainer(model, optimizer, {.epochs = 1}).fit(loader_of(rows(32)), &loader).steps, 2);
  EXPECT_ERROR(ValueError, "stream", Trainer(model, optimizer, {.epochs = 1}).fit(loader));
  rows_read->count = 0;
  EXPECT_ERROR(ValueError, "no batch", evaluate(model, loader));
}

TEST(Trainer, ChecksItsOptions) {
  Classifier model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const auto with = [&](TrainerOptions options) { Trainer(model, optimizer, std::move(options)); };
  EXPECT_ERROR(ValueError, "without dots", with({.run_options = {{"a.b", "c"}}}));
  EXPECT_ERROR(ValueError, "without dots", with({.run_options = {{"", "c"}}}));
  EXPECT_ERROR(ValueError, "'a' comes twice", with({.run_options = {{"a", "c"}, {"a", "d"}}}));
  optim::SGD other(model.parameters(), {.lr = 0.1});
  optim::ExponentialLR schedule(other, {.gamma = 0.5});
  optim::ReduceLROnPlateau plateau(other);
  EXPECT_ERROR(ValueError, "another optimizer", with({.scheduler = &schedule}));
  EXPECT_ERROR(ValueError, "another optimizer", with({.plateau = &plateau}));
  EXPECT_ERROR(ValueError, "-1 steps", with({.checkpoints = {.every_steps = -1}}));
  EXPECT_ERROR(ValueError, "nan seconds", with({.checkpoints = {.every_seconds = std::nan("")}}));
}

}  // namespace
}  // namespace facula::train
