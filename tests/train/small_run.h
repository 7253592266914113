// A small training run with everything that has state: batch norm, dropout, augmentation,
// shuffling, an optimizer, a schedule, validation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <facula/data.h>
#include <facula/generator.h>
#include <facula/nn.h>
#include <facula/optim.h>
#include <facula/parallel.h>
#include <facula/train.h>

namespace facula::train {

struct SmallNet : nn::Module {
  nn::Conv2d conv{*this, "conv", {.in = 1, .out = 4, .kernel = 3, .padding = 1}};
  nn::BatchNorm2d norm{*this, "norm", {.features = 4}};
  nn::Dropout dropout{*this, "dropout", {.p = 0.2}};
  nn::Linear fc{*this, "fc", {.in = 4 * 8 * 8, .out = 4}};

  Tensor forward(const Tensor& images) const override {
    return fc(dropout(relu(norm(conv(images)))).flatten(1));
  }
};

struct SmallRunOptions {
  std::string optimizer = "adam";  // or "sgd", "adamw"
  std::string schedule = "none";   // or "onecycle", "plateau", "both" (exponential and plateau)
  int threads = 1, workers = 0;
  std::int64_t samples = 88;  // 10 batches of 8 to train on, 8 samples to validate on
  std::int64_t epochs = 3, batch = 8;
  std::shared_ptr<const data::BatchSampler> batch_sampler = {};  // instead of shuffled batches
};

/// Noise with one bright row, which tells the class; the same every time.
inline data::DatasetPtr small_images(std::int64_t count) {
  manual_seed(7);
  const Tensor labels = randint(0, 4, {count});
  const Tensor images = randint(0, 60, {count, 1, 8, 8}).to(kUInt8);
  for (std::int64_t i = 0; i < count; ++i) {
    images[i][0][2 * labels[i].item<std::int64_t>()].fill_(250);
  }
  return data::from_tensors(images, labels, 4);
}

/// Model, optimizer and data as a program would make them anew each time it starts.
class SmallRun {
 public:
  explicit SmallRun(const SmallRunOptions& options) : options_(options) {
    namespace transforms = data::transforms;
    set_num_threads(options.threads);
    const auto [train, held_out] = data::random_split(small_images(options.samples), 0.1, 1);
    data::DataLoaderOptions loading{
        .seed = 3,
        .transform =
            transforms::Compose({transforms::RandomCrop({.size = 8, .width = 8, .padding = 1}),
                                 transforms::RandomHorizontalFlip(), transforms::ToTensor()}),
        .batch_sampler = options.batch_sampler,
        .num_workers = options.workers};
    if (!options.batch_sampler) {
      loading.batch_size = options.batch;
      loading.shuffle = true;
    }
    training_.emplace(train, loading);
    validation_.emplace(held_out, data::DataLoaderOptions{.batch_size = 8,
                                                          .transform = transforms::ToTensor(),
                                                          .num_workers = options.workers});
    manual_seed(5);
    model_ = std::make_unique<SmallNet>();
    make_optimizer();
  }

  /// Fills in what belongs to the run and trains; validates on other samples, or on the training
  /// loader.
  Result fit(TrainerOptions options, bool validate_on_training = false) {
    options.epochs = options_.epochs;
    options.scheduler = schedule_.get();
    options.plateau = plateau_.get();
    return Trainer(*model_, *optimizer_, std::move(options))
        .fit(*training_, validate_on_training ? &*training_ : &*validation_);
  }

  SmallNet& model() { return *model_; }
  const data::DataLoader& training() const { return *training_; }
  optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  void make_optimizer() {
    const auto parameters = model_->parameters();
    if (options_.optimizer == "sgd") {
      optimizer_ = std::make_unique<optim::SGD>(
          parameters, optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4});
    } else if (options_.optimizer == "adamw") {
      optimizer_ = std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 1e-2});
    } else {
      optimizer_ = std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-2});
    }
    if (options_.schedule == "onecycle") {
      schedule_ = std::make_unique<optim::OneCycleLR>(
          *optimizer_,
          optim::OneCycleLROptions{.max_lr = {0.05},
                                   .total_steps = options_.epochs * training_->size() + 1});
    }
    if (options_.schedule == "both") {
      schedule_ = std::make_unique<optim::ExponentialLR>(*optimizer_,
                                                         optim::ExponentialLROptions{.gamma = 0.9});
    }
    if (options_.schedule == "plateau" || options_.schedule == "both") {
      plateau_ = std::make_unique<optim::ReduceLROnPlateau>(
          *optimizer_, optim::ReduceLROnPlateauOptions{
                           .factor = 0.5, .patience = 0, .threshold = 10, .threshold_mode = "abs"});
    }
  }

  const SmallRunOptions options_;
  std::optional<data::DataLoader> training_, validation_;
  std::unique_ptr<SmallNet> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::LRScheduler> schedule_;
  std::unique_ptr<optim::ReduceLROnPlateau> plateau_;
};

}  // namespace facula::train
