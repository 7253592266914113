// `facula train` and `facula eval`.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>

#include <facula/autograd.h>
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

constexpr std::int64_t kCropPadding = 4;
constexpr std::int64_t kEvaluationBatch = 256;
constexpr double kMomentum = 0.9;
constexpr double kWarmupStart = 0.01;  // the first step's share of the learning rate

data::ImageDatasetPtr load_for(const models::ModelInfo& model, const std::string& kind_and_path,
                               data::Part part) {
  data::ImageDatasetPtr set = open_data(kind_and_path, part);
  if (set->info().channels != model.channels) {
    throw UsageError(
        fmt::format("--data: images of {} have {} channel(s), the "
                    "model {} takes {}; choose another model",
                    kind_and_path, set->info().channels, model.name, model.channels));
  }
  return set;
}

/// Some models take images of one size only.
void check_size(const models::ModelInfo& wanted, const std::string& kind_and_path,
                const data::ImageSetInfo& info) {
  constexpr std::int64_t kImageNetSize = 224;
  const std::int64_t height = info.height > 0 ? info.height : kImageNetSize;
  const std::int64_t width = info.height > 0 ? info.width : kImageNetSize;
  if (height == wanted.height && width == wanted.width) return;
  const InferenceMode no_grad;
  nn::AnyModule trial = models::create(wanted.name, info.classes);
  trial->eval();
  try {
    trial(zeros({1, wanted.channels, height, width}));
  } catch (const ShapeError&) {
    throw UsageError(fmt::format(
        "--data: images of {} come as {}x{} pixels, the model {} takes {}x{}; choose another model",
        kind_and_path, height, width, wanted.name, wanted.height, wanted.width));
  }
}

/// How training images are changed.
struct Augmentation {
  bool crop = false, flip = false, imagenet = false;

  /// As the option that asks for it.
  std::string str() const {
    return imagenet ? "imagenet" : crop && flip ? "flip,crop" : crop ? "crop" : flip ? "flip" : "";
  }
};

/// Images of many sizes are treated as ImageNet's.
Augmentation augmentation(const TrainOptions& options, const data::ImageSetInfo& info) {
  const auto wanted = [&](const char* name) {
    return std::count(options.augment.begin(), options.augment.end(), name) > 0;
  };
  const Augmentation named{.crop = wanted("crop"), .flip = wanted("flip")};
  const bool some = named.crop || named.flip, none = wanted("none");
  if (some && none) throw UsageError("--augment: none contradicts what else is named");
  if (info.height > 0) return named;
  if (some) {
    throw UsageError(
        "--augment: images of many sizes are cropped and flipped as ImageNet's; leave "
        "--augment out, or give none");
  }
  return {.imagenet = !none};
}

data::Transform training_transform(const Augmentation& augment, const data::ImageSetInfo& info) {
  namespace transforms = data::transforms;
  if (info.height == 0) {
    return transforms::by_name(augment.imagenet ? "imagenet-train" : "imagenet-val", info.mean,
                               info.std);
  }
  std::vector<data::Transform> chain;
  if (augment.crop) {
    chain.emplace_back(transforms::RandomCrop(
        {.size = info.height, .width = info.width, .padding = kCropPadding}));
  }
  if (augment.flip) chain.emplace_back(transforms::RandomHorizontalFlip());
  chain.emplace_back(transforms::ToTensor());
  chain.emplace_back(transforms::Normalize(info.mean, info.std));
  return transforms::Compose(std::move(chain));
}

/// Where training images are of many sizes, a model has seen them treated as ImageNet's, and so it
/// does test images, even if those happen to be of one size.
data::ImageSetInfo beside_training(data::ImageSetInfo test, const data::ImageSetInfo& training) {
  if (training.height == 0) test.height = test.width = 0;
  return test;
}

data::DataLoader evaluation_loader(const data::DatasetPtr& set, const data::ImageSetInfo& info,
                                   std::int64_t batch, int workers) {
  const char* name = info.height == 0 ? "imagenet-val" : "mnist";
  return data::DataLoader(set, {.batch_size = batch,
                                .transform = data::transforms::by_name(name, info.mean, info.std),
                                .num_workers = workers});
}

/// Of a training run: what fits into memory with its --batch fits when it is evaluated.
data::DataLoader evaluation_loader(const data::DatasetPtr& set, const data::ImageSetInfo& info,
                                   const TrainOptions& options) {
  return evaluation_loader(set, info, std::min(options.batch, kEvaluationBatch), options.workers);
}

double momentum(const TrainOptions& options) { return options.momentum.value_or(kMomentum); }

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
      optim::SGDOptions{.lr = lr, .momentum = momentum(options), .weight_decay = weight_decay});
}

/// The first steps' warm-up, if any, and then the schedule.
template <class Schedule>
std::unique_ptr<optim::LRScheduler> after_warmup(optim::Optimizer& optimizer, std::int64_t warmup,
                                                 Schedule schedule) {
  if (warmup == 0) return std::make_unique<Schedule>(std::move(schedule));
  return std::make_unique<optim::SequentialLR>(
      optimizer, optim::SequentialLROptions{.milestones = {warmup}},
      optim::LinearLR(optimizer, {.start_factor = kWarmupStart, .total_iters = warmup}),
      std::move(schedule));
}

/// All schedules count steps. Null for a constant rate.
std::unique_ptr<optim::LRScheduler> make_schedule(const TrainOptions& options,
                                                  optim::Optimizer& optimizer,
                                                  std::int64_t steps_per_epoch) {
  std::int64_t steps = 0;
  if (__builtin_mul_overflow(options.epochs, steps_per_epoch, &steps) || steps > INT64_MAX - 2) {
    throw UsageError(fmt::format("--epochs: {} epochs of {} steps are more than can be counted",
                                 options.epochs, steps_per_epoch));
  }
  const std::int64_t warmup = options.warmup * steps_per_epoch, rest = steps - warmup;
  if (options.schedule == "step") {
    return after_warmup(optimizer, warmup, optim::StepLR(optimizer, {.step_size = (rest + 2) / 3}));
  }
  if (options.schedule == "cosine") {
    return after_warmup(optimizer, warmup, optim::CosineAnnealingLR(optimizer, {.T_max = rest}));
  }
  if (options.schedule == "onecycle") {
    // One step more than there are updates, so that the last update still learns: the least rate,
    // 1e-4 of the first one, comes after it.
    return std::make_unique<optim::OneCycleLR>(
        optimizer, optim::OneCycleLROptions{.max_lr = {options.lr}, .total_steps = steps + 1});
  }
  if (warmup == 0) return nullptr;
  return std::make_unique<optim::LinearLR>(
      optimizer, optim::LinearLROptions{.start_factor = kWarmupStart, .total_iters = warmup});
}

void check_options(const TrainOptions& options) {
  if (options.momentum && options.optimizer != "sgd") {
    throw UsageError("--momentum: " + options.optimizer +
                     " has none to set; leave --momentum out, or choose sgd");
  }
  if (options.momentum && options.schedule == "onecycle") {
    throw UsageError(
        "--momentum: onecycle moves it between 0.85 and 0.95; leave --momentum out, or choose "
        "another schedule");
  }
  if (options.warmup > 0 && options.schedule == "onecycle") {
    throw UsageError("--warmup: onecycle begins with a warm-up of its own; leave --warmup out");
  }
  if (options.warmup >= options.epochs) {
    throw UsageError(fmt::format("--warmup: {} of {} epochs leave none for the schedule",
                                 options.warmup, options.epochs));
  }
}

/// A new folder, also for runs that begin in the same second.
std::string new_run_folder(const TrainOptions& options) {
  namespace fs = std::filesystem;
  const std::string first =
      fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", options.model, fmt::localtime(std::time(nullptr)));
  std::string folder = first;
  std::error_code error;
  fs::create_directories("runs", error);
  for (int i = 2; !fs::create_directory(folder, error) && !error; ++i) {
    folder = fmt::format("{}-{}", first, i);
  }
  return folder;  // the run says why one cannot be made
}

/// What a resumed run must have in common with the one it goes on with. Not the path of the data,
/// which may have moved, but what kind they are and how many.
std::vector<std::pair<std::string, std::string>> run_options(const TrainOptions& options,
                                                             const Augmentation& augment,
                                                             std::int64_t samples) {
  std::vector<std::pair<std::string, std::string>> named = {
      {"model", options.model},
      {"data", options.data.substr(0, options.data.find(':'))},
      {"training samples", std::to_string(samples)},
      {"seed", std::to_string(options.seed)},
      {"batch", std::to_string(options.batch)},
      {"optimizer", options.optimizer},
      {"lr", fmt::format("{}", options.lr)},
      {"momentum", fmt::format("{}", momentum(options))},
      {"weight-decay", fmt::format("{}", options.weight_decay)},
      {"schedule", options.schedule},
      {"val-split", fmt::format("{}", options.val_split)},
      {"augment", augment.str()},
      {"label-smoothing", fmt::format("{}", options.label_smoothing)},
  };
  // Runs whose checkpoints are older than these options have the defaults.
  if (options.drop_last) named.emplace_back("drop-last", "1");
  if (options.warmup > 0) named.emplace_back("warmup", std::to_string(options.warmup));
  if (options.clip_grad_norm > 0) {
    named.emplace_back("clip-grad-norm", fmt::format("{}", options.clip_grad_norm));
  }
  // Unless the schedule depends on them, a run may go on for more epochs than planned.
  if (options.schedule != "none" && options.schedule != "plateau") {
    named.emplace_back("epochs", std::to_string(options.epochs));
  }
  return named;
}

/// The training set, and the part of it to validate on.
struct TrainingData {
  data::ImageSetInfo info;
  data::DatasetPtr train, validation;
};

TrainingData load_training_data(const TrainOptions& options) {
  const auto all = load_for(models::info(options.model), options.data, data::Part::train);
  TrainingData data{all->info(), all, nullptr};
  if (options.subset > all->size()) {
    throw UsageError(fmt::format("--subset: {} samples wanted, the training set has {}",
                                 options.subset, all->size()));
  }
  if (options.subset > 0) {
    std::vector<std::int64_t> first(static_cast<std::size_t>(options.subset));
    std::iota(first.begin(), first.end(), std::int64_t{0});
    data.train = data::subset(all, std::move(first));
  }
  if (options.val_split > 0) {
    try {
      std::tie(data.train, data.validation) =
          data::random_split(data.train, options.val_split, options.seed);
    } catch (const ValueError& error) {
      throw UsageError(fmt::format("--val-split: {}", error.what()));
    }
  }
  if (options.drop_last && data.train->size() < options.batch) {
    throw UsageError(fmt::format("--drop-last: {} samples make no batch of {}; lower --batch",
                                 data.train->size(), options.batch));
  }
  return data;
}

/// Both parts must hold images of one size, unless they are treated as ImageNet's, and a label must
/// mean the same class in both: they may have been packed one by one.
void check_parts(const data::ImageSetInfo& train, const data::ImageSetInfo& test) {
  if (train.height > 0 && (train.height != test.height || train.width != test.width)) {
    throw ValueError(fmt::format(
        "--data: the training part's images are of {}x{} pixels, the test part's {}; make "
        "both parts of the same set",
        train.height, train.width,
        test.height > 0 ? fmt::format("of {}x{}", test.height, test.width) : "of many sizes"));
  }
  if (train.classes == test.classes && train.class_names == test.class_names) return;
  throw ValueError(
      fmt::format("--data: the training part's {} classes ({}) are not the test part's {} ({}); "
                  "make both parts of the same set, with its folders train and val",
                  train.classes, fmt::join(train.class_names, ", "), test.classes,
                  fmt::join(test.class_names, ", ")));
}

/// That nobody reads it shows when the program ends.
void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

/// `test` is missing after an interrupt.
void print_summary(const TrainOptions& options, const std::string& folder,
                   const train::Result& result, const std::optional<train::Metrics>& test) {
  if (!options.json) {
    if (test) {
      print(fmt::format(
          "test {}  ({:.1f} s of training, {:.0f} items/s, {:.1f} % of the time for the loader)\n",
          test->str(), result.seconds, result.items_per_s, 100 * result.loader_share));
    }
    if (result.steps > 0) print(fmt::format("weights and metrics are in {}\n", folder));
    if (result.resumable && !test) print(fmt::format("go on with --resume --out {}\n", folder));
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
  if (test) line.add("test_loss", test->loss).add("test_accuracy", test->accuracy);
  line.add("seconds", result.seconds)
      .add("items_per_s", result.items_per_s)
      .add("loader_share", result.loader_share)
      .add("interrupted", result.interrupted)
      .add("steps", result.steps)
      .add("resumed_from", result.resumed_from)
      .add("run_folder", folder);
  print(line.str() + '\n');
}

train::Start start_of(const TrainOptions& options) {
  if (options.resume && options.out.empty()) {
    throw UsageError("--resume: name the run folder with --out");
  }
  if (options.resume) return train::Start::resume;
  return options.overwrite ? train::Start::overwrite : train::Start::fresh;
}

train::CheckpointOptions checkpoint_options(const TrainOptions& options) {
  const bool by_steps = options.checkpoint_steps > 0;
  return {.enabled = options.checkpoints,
          .every_seconds = by_steps ? 0 : options.checkpoint_seconds,
          .every_steps = options.checkpoint_steps};
}

}  // namespace

int run_train(const TrainOptions& options) {
  // What was learned is worth more than the output, whose reader or room may be gone.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  const train::Start start = start_of(options);
  check_options(options);
  if (options.threads > 0) set_num_threads(options.threads);
  const TrainingData sets = load_training_data(options);
  const data::ImageDatasetPtr test_set =
      load_for(models::info(options.model), options.data, data::Part::test);
  check_parts(sets.info, test_set->info());
  const Augmentation augment = augmentation(options, sets.info);
  check_size(models::info(options.model), options.data, sets.info);

  manual_seed(options.seed);
  nn::AnyModule model = models::create(options.model, sets.info.classes);
  const data::DataLoader loader(sets.train, {.batch_size = options.batch,
                                             .shuffle = true,
                                             .drop_last = options.drop_last,
                                             .seed = options.seed,
                                             .transform = training_transform(augment, sets.info),
                                             .num_workers = options.workers});
  std::optional<data::DataLoader> validation;
  if (sets.validation) {
    validation = evaluation_loader(sets.validation, sets.info, options);
  }
  const auto optimizer = make_optimizer(options, model->parameters());
  const auto schedule = make_schedule(options, *optimizer, loader.size());
  std::optional<optim::ReduceLROnPlateau> plateau;
  if (options.schedule == "plateau") plateau.emplace(*optimizer);
  std::optional<autograd::AnomalyMode> anomaly;
  if (options.anomaly) anomaly.emplace();

  const std::string folder = options.out.empty() ? new_run_folder(options) : options.out;
  std::fputs(fmt::format("{}: {} parameters, {} training samples, {} threads\n", options.model,
                         model->parameter_count(), sets.train->size(), get_num_threads())
                 .c_str(),
             stderr);
  train::Trainer trainer(
      *model, *optimizer,
      {.epochs = options.epochs,
       .loss = nn::CrossEntropyLoss({.label_smoothing = options.label_smoothing}),
       .accuracy = true,
       .scheduler = schedule.get(),
       .plateau = plateau ? &*plateau : nullptr,
       .clip_grad_norm = options.clip_grad_norm,
       .run_folder = folder,
       .checkpoints = checkpoint_options(options),
       .start = start,
       .run_options = run_options(options, augment, sets.train->size()),
       .progress =
           options.json ? train::Progress::standard_error : train::Progress::standard_output});
  const train::Result result = trainer.fit(loader, validation ? &*validation : nullptr);
  std::optional<train::Metrics> test;
  if (!result.signal) {
    const data::ImageSetInfo test_info = beside_training(test_set->info(), sets.info);
    test = train::evaluate(*model, evaluation_loader(test_set, test_info, options));
  }
  print_summary(options, folder, result, test);
  return result.signal ? kSignalled + result.signal : 0;
}

namespace {

/// What training made of images like these. Only parts that were packed may differ in whether they
/// have one size, and their images need not be read to know.
data::ImageSetInfo as_trained(const data::ImageSetInfo& test, const EvalOptions& options) {
  constexpr std::string_view kPacked = "packed:";
  if (!options.data.starts_with(kPacked) || test.height == 0) return test;
  const std::string folder = options.data.substr(kPacked.size());
  std::error_code ignored;
  if (!std::filesystem::exists(folder + "/train.fpk", ignored)) {
    std::fputs(fmt::format("eval: no train.fpk is beside the test part to tell whether training "
                           "images are of one size, too; these are taken as they are, {}x{}\n",
                           test.height, test.width)
                   .c_str(),
               stderr);
    return test;
  }
  return beside_training(test, open_data(options.data, data::Part::train)->info());
}

/// The set's numbers with the mean and deviation that were asked for.
data::ImageSetInfo info_for(const data::ImageDatasetPtr& set, const EvalOptions& options) {
  data::ImageSetInfo info = as_trained(set->info(), options);
  if (!options.mean.empty()) info.mean = options.mean;
  if (!options.std.empty()) info.std = options.std;
  const std::size_t channels = set->info().mean.size();
  if (info.mean.size() != channels || info.std.size() != channels) {
    throw UsageError(fmt::format("--mean, --std: {} and {} numbers for images of {} channels",
                                 info.mean.size(), info.std.size(), channels));
  }
  if (std::ranges::any_of(info.std, [](double deviation) { return deviation <= 0; })) {
    throw UsageError("--std: a deviation is not above 0");
  }
  return info;
}

std::string first_of(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  return names.size() == 1 ? names[0] : fmt::format("{} and {} more", names[0], names.size() - 1);
}

/// Unlike the library's, the error knows what the user can do about it.
void load_all_weights(const nn::Module& model, const EvalOptions& options) {
  const nn::LoadReport report =
      model.load_pth(options.weights, {.key_prefix = options.key_prefix, .strict = false});
  if (report.missing.empty() && report.unexpected.empty()) return;
  throw ValueError(fmt::format(
      "eval: {} does not fit {}; give the --model that was trained, and --key-prefix if the "
      "file's names begin with more (missing: {}; unexpected: {})",
      options.weights, options.model, first_of(report.missing), first_of(report.unexpected)));
}

}  // namespace

int run_eval(const EvalOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const data::ImageDatasetPtr set =
      load_for(models::info(options.model), options.data, data::Part::test);
  const data::ImageSetInfo info = info_for(set, options);
  check_size(models::info(options.model), options.data, info);
  nn::AnyModule model = models::create(options.model, info.classes);
  load_all_weights(*model, options);
  const train::Metrics test =
      train::evaluate(*model, evaluation_loader(set, info, options.batch, options.workers));
  if (options.json) {
    fmt::print("{}\n", JsonLine()
                           .add("model", options.model)
                           .add("weights", options.weights)
                           .add("data", options.data)
                           .add("samples", set->size())
                           .add("test_loss", test.loss)
                           .add("test_accuracy", test.accuracy)
                           .str());
  } else {
    fmt::print("test {}  ({} samples)\n", test.str(), set->size());
  }
  return 0;
}

}  // namespace facula::cli
