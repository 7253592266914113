// `facula train` and `facula eval`.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include <facula/data.h>
#include <facula/error.h>
#include <facula/generator.h>
#include <facula/json_line.h>
#include <facula/models.h>
#include <facula/nn/loss.h>
#include <facula/optim.h>
#include <facula/parallel.h>
#include <facula/safetensors.h>
#include <facula/train.h>

#include "cli/commands.h"

namespace facula::cli {
namespace {

constexpr int kInterrupted = 130;  // as shells report SIGINT
constexpr std::int64_t kCropPadding = 4;

data::ImageDataset load_for(const models::ModelInfo& model, const std::string& kind_and_folder,
                            data::Part part) {
  const std::string kind = kind_and_folder.substr(0, kind_and_folder.find(':'));
  const auto& kinds = data::kinds();
  if (kind == kind_and_folder || std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    throw UsageError(fmt::format("--data: '{}' is not KIND:FOLDER with one of the kinds {}",
                                 kind_and_folder, fmt::join(kinds, ", ")));
  }
  data::ImageDataset set = data::load(kind_and_folder, part);
  if (set.images.size(1) != model.channels) {
    throw UsageError(
        fmt::format("--data: images of {} have {} channel(s), the "
                    "model {} takes {}; choose another model",
                    kind, set.images.size(1), model.name, model.channels));
  }
  return set;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                 const std::vector<Tensor>& parameters) {
  const double lr = options.lr, weight_decay = options.weight_decay;
  if (options.optimizer == "adam") {
    return std::make_unique<optim::Adam>(
        parameters, optim::AdamOptions{.lr = lr, .weight_decay = weight_decay});
  }
  if (options.optimizer == "adamw") {
    return std::make_unique<optim::AdamW>(
        parameters, optim::AdamWOptions{.lr = lr, .weight_decay = weight_decay});
  }
  return std::make_unique<optim::SGD>(
      parameters,
      optim::SGDOptions{.lr = lr, .momentum = options.momentum, .weight_decay = weight_decay});
}

/// All schedules count steps. Null for a constant rate.
std::unique_ptr<optim::LRScheduler> make_schedule(const TrainOptions& options,
                                                  optim::Optimizer& optimizer, std::int64_t steps) {
  if (options.schedule == "step") {
    return std::make_unique<optim::StepLR>(
        optimizer, optim::StepLROptions{.step_size = std::max<std::int64_t>(steps / 3, 1)});
  }
  if (options.schedule == "cosine") {
    return std::make_unique<optim::CosineAnnealingLR>(
        optimizer, optim::CosineAnnealingLROptions{.T_max = steps});
  }
  if (options.schedule == "onecycle") {
    // The schedule is also stepped after the last update.
    return std::make_unique<optim::OneCycleLR>(
        optimizer, optim::OneCycleLROptions{.max_lr = {options.lr}, .total_steps = steps + 1});
  }
  return nullptr;
}

std::string default_run_folder(const TrainOptions& options) {
  return fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", options.model, fmt::localtime(std::time(nullptr)));
}

/// The training set, and the part of it to validate on.
struct TrainingData {
  data::ImageDataset train;
  std::optional<data::ImageDataset> validation;
};

TrainingData load_training_data(const TrainOptions& options) {
  TrainingData data{load_for(models::info(options.model), options.data, data::Part::train), {}};
  if (options.subset > data.train.size()) {
    throw UsageError(fmt::format("--subset: {} samples wanted, the training set has {}",
                                 options.subset, data.train.size()));
  }
  if (options.subset > 0) data.train.samples.resize(static_cast<std::size_t>(options.subset));
  if (options.val_split > 0) {
    auto [rest, held_out] = data::random_split(data.train, options.val_split, options.seed);
    data = {std::move(rest), std::move(held_out)};
  }
  return data;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void print_summary(const TrainOptions& options, const std::string& folder,
                   const train::Result& result, const train::Metrics& test) {
  if (!options.json) {
    fmt::print(
        "test loss {:.4f}  accuracy {:.2f} %  ({:.1f} s of training, "
        "{:.0f} items/s)\n"
        "weights and metrics are in {}\n",
        test.loss, 100 * test.accuracy, result.seconds, result.items_per_s, folder);
    return;
  }
  JsonLine line;
  line.add("model", options.model)
      .add("data", options.data)
      .add("epochs", result.epochs.size())
      .add("batch", options.batch)
      .add("threads", get_num_threads());
  if (!result.epochs.empty()) {
    const train::EpochReport& last = result.epochs.back();
    line.add("train_loss", last.training.loss).add("train_accuracy", last.training.accuracy);
    if (last.validation) {
      line.add("val_loss", last.validation->loss).add("val_accuracy", last.validation->accuracy);
    }
  }
  line.add("test_loss", test.loss)
      .add("test_accuracy", test.accuracy)
      .add("seconds", result.seconds)
      .add("items_per_s", result.items_per_s)
      .add("interrupted", result.interrupted)
      .add("run_folder", folder);
  fmt::print("{}\n", line.str());
}

}  // namespace

int run_train(const TrainOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const TrainingData sets = load_training_data(options);
  const data::ImageDataset test_set =
      load_for(models::info(options.model), options.data, data::Part::test);
  const std::string folder = options.out.empty() ? default_run_folder(options) : options.out;

  manual_seed(options.seed);
  nn::AnyModule model = models::create(options.model, sets.train.classes);
  const data::DataLoader loader(sets.train,
                                {.batch_size = options.batch,
                                 .shuffle = true,
                                 .seed = options.seed,
                                 .flip = has(options.augment, "flip"),
                                 .crop_padding = has(options.augment, "crop") ? kCropPadding : 0});
  std::optional<data::DataLoader> validation;
  if (sets.validation)
    validation.emplace(*sets.validation, data::DataLoaderOptions{.batch_size = 256});
  const auto optimizer = make_optimizer(options, model->parameters());
  const auto schedule = make_schedule(options, *optimizer, options.epochs * loader.size());

  fmt::print(stderr, "{}: {} parameters, {} training samples, {} threads\n", options.model,
             model->parameter_count(), sets.train.size(), get_num_threads());
  train::Trainer trainer(
      *model, *optimizer,
      {.epochs = options.epochs,
       .loss = nn::CrossEntropyLoss({.label_smoothing = options.label_smoothing}),
       .scheduler = schedule.get(),
       .run_folder = folder,
       .progress =
           options.json ? train::Progress::standard_error : train::Progress::standard_output});
  const train::Result result = trainer.fit(loader, validation ? &*validation : nullptr);
  const train::Metrics test =
      train::evaluate(*model, data::DataLoader(test_set, {.batch_size = 256}));
  print_summary(options, folder, result, test);
  return result.interrupted ? kInterrupted : 0;
}

int run_eval(const EvalOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const data::ImageDataset set =
      load_for(models::info(options.model), options.data, data::Part::test);
  nn::AnyModule model = models::create(options.model, set.classes);
  try {
    model->load_state_dict(load_safetensors(options.weights));
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{}: these are no weights of {}: {}", options.weights,
                                 options.model, error.what()));
  }
  const train::Metrics test =
      train::evaluate(*model, data::DataLoader(set, {.batch_size = options.batch}));
  if (options.json) {
    fmt::print("{}\n", JsonLine()
                           .add("model", options.model)
                           .add("weights", options.weights)
                           .add("data", options.data)
                           .add("samples", set.size())
                           .add("test_loss", test.loss)
                           .add("test_accuracy", test.accuracy)
                           .str());
  } else {
    fmt::print("test loss {:.4f}  accuracy {:.2f} %  ({} samples)\n", test.loss,
               100 * test.accuracy, set.size());
  }
  return 0;
}

}  // namespace facula::cli
