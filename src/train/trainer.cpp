#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include <facula/autograd.h>
#include <facula/nn/loss.h>
#include <facula/train.h>

#include "base/check.h"
#include "train/interrupt.h"
#include "train/progress.h"
#include "train/run_folder.h"

namespace facula::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Loss or_cross_entropy(const Loss& loss) { return loss ? loss : Loss(nn::CrossEntropyLoss()); }

/// Sums over samples, from which averages come.
struct Totals {
  double loss = 0;
  std::int64_t correct = 0, samples = 0;

  void add(double mean_loss, const Tensor& output, const Tensor& target) {
    const std::int64_t count = target.size(0);
    // Mixed labels are shares of the classes.
    const Tensor label = target.dim() == 2 ? target.argmax(1) : target;
    loss += mean_loss * static_cast<double>(count);
    correct += output.argmax(1).eq(label).sum().item<std::int64_t>();
    samples += count;
  }
  Metrics average() const {
    const auto count = static_cast<double>(samples);
    return {loss / count, static_cast<double>(correct) / count};
  }
};

}  // namespace

/// The state of one call of fit().
struct Trainer::Run {
  Run(Trainer& trainer, const data::DataLoader& loader)
      : options(trainer.options_),
        model(trainer.model_),
        optimizer(trainer.optimizer_),
        training(loader),
        folder(options.run_folder),
        display(options.progress, options.epochs, loader.size()),
        interrupt(options.stop_on_interrupt) {}

  /// True if the epoch is complete.
  bool train_epoch(std::int64_t epoch, EpochReport& report) {
    const auto start = Clock::now();
    Totals totals;
    std::int64_t step_in_epoch = 0;
    for (const auto& batch : training.epoch(epoch - 1)) {
      train_step(epoch, batch, totals);
      seconds = seconds_before + seconds_since(start);
      display.step(epoch, ++step_in_epoch, totals.average(),
                   static_cast<double>(totals.samples) / (seconds - seconds_before));
      if (interrupt.interrupted()) break;
    }
    if (options.scheduler && options.step_scheduler_per_epoch) options.scheduler->step();
    items += totals.samples;
    report = {.epoch = epoch,
              .steps = steps,
              .training = totals.average(),
              .validation = std::nullopt,
              .lr = last_lr,
              .seconds = seconds - seconds_before,
              .items_per_s = static_cast<double>(totals.samples) / (seconds - seconds_before)};
    seconds_before = seconds;
    return step_in_epoch == training.size();
  }

  /// What the loader has decided, when that is new.
  void report_loader() {
    std::string decision = training.decision();
    if (decision == loader_decision) return;
    loader_decision = std::move(decision);
    if (!loader_decision.empty()) display.message("data loader: " + loader_decision);
  }

  void train_step(std::int64_t epoch, const data::Batch& batch, Totals& totals) {
    optimizer.zero_grad();
    const Tensor output = model(batch[0]);
    const Tensor loss = options.loss(output, batch[1]);
    const auto value = loss.item<double>();
    last_lr = optimizer.lr();
    ++steps;
    check<ValueError>(std::isfinite(value),
                      "train: the loss is {} at step {} (epoch {}) with "
                      "learning rate {}; the last good loss was "
                      "{} at step {}. Lower the learning rate, clip gradients, "
                      "or look for NaN in the data with "
                      "autograd::AnomalyMode",
                      value, steps, epoch, last_lr, last_good_loss, steps - 1);
    last_good_loss = value;
    loss.backward();
    optimizer.step();
    if (options.scheduler && !options.step_scheduler_per_epoch) options.scheduler->step();
    {
      const NoGradGuard no_grad;
      totals.add(value, output, batch[1]);
    }
    if (options.on_step) {
      options.on_step({.epoch = epoch, .step = steps, .loss = value, .lr = last_lr});
    }
  }

  const TrainerOptions& options;
  nn::Module& model;
  optim::Optimizer& optimizer;
  const data::DataLoader& training;
  RunFolder folder;
  ProgressDisplay display;
  InterruptGuard interrupt;
  std::string loader_decision;

  std::int64_t steps = 0, items = 0;
  double last_lr = 0, last_good_loss = std::nan("");
  double seconds = 0,
         seconds_before = 0;  // of training; at the start of the epoch
};

Trainer::Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options)
    : model_(model), optimizer_(optimizer), options_(std::move(options)) {
  check<ValueError>(options_.epochs >= 1, "Trainer: epochs is {}, must be at least 1",
                    options_.epochs);
  options_.loss = or_cross_entropy(options_.loss);
}

Result Trainer::fit(const data::DataLoader& training, const data::DataLoader* validation) {
  check<ValueError>(training.size() >= 1,
                    "Trainer: {} samples make no batch of {}; lower the batch size",
                    training.samples(), training.options().batch_size);
  Run run(*this, training);
  Result result;
  model_.train();
  for (std::int64_t epoch = 1; epoch <= options_.epochs && !result.interrupted; ++epoch) {
    EpochReport report;
    const bool complete = run.train_epoch(epoch, report);
    result.interrupted = run.interrupt.interrupted();
    if (!complete) break;
    if (validation) report.validation = evaluate(model_, *validation, options_.loss);
    run.display.epoch(report);
    run.report_loader();
    run.folder.add(report);
    result.epochs.push_back(report);
    if (options_.on_epoch) options_.on_epoch(report);
  }
  if (result.interrupted) {
    run.display.message(fmt::format("interrupted after step {}", run.steps));
  }
  run.folder.save_weights(model_);
  result.seconds = run.seconds;
  result.items_per_s = static_cast<double>(run.items) / run.seconds;
  return result;
}

Metrics evaluate(nn::Module& model, const data::DataLoader& loader, const Loss& loss) {
  check<ValueError>(loader.size() >= 1, "evaluate: {} samples make no batch of {}",
                    loader.samples(), loader.options().batch_size);
  const Loss criterion = or_cross_entropy(loss);
  const bool was_training = model.is_training();
  model.eval();
  Totals totals;
  {
    const NoGradGuard no_grad;
    for (const auto& batch : loader.epoch(0)) {
      const Tensor output = model(batch[0]);
      totals.add(criterion(output, batch[1]).item<double>(), output, batch[1]);
    }
  }
  model.train(was_training);
  return totals.average();
}

}  // namespace facula::train
