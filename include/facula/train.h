// The training loop: epochs, validation, progress, metrics, a clean end on
// Ctrl-C.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <facula/data.h>
#include <facula/nn/module.h>
#include <facula/optim.h>

namespace facula::train {

/// Averages over samples. The accuracy is a share in [0, 1].
struct Metrics {
  double loss = 0;
  double accuracy = 0;
};

struct StepReport {
  std::int64_t epoch = 0;  ///< from 1
  std::int64_t step = 0;   ///< from 1, over all epochs
  double loss = 0;         ///< of this step, before its update
  double lr = 0;           ///< of the first parameter group, used in this step
};

struct EpochReport {
  std::int64_t epoch = 0;  ///< from 1
  std::int64_t steps = 0;  ///< done so far
  Metrics training;        ///< average over the epoch's steps, each before its update
  std::optional<Metrics> validation;
  double lr = 0;       ///< in the last step
  double seconds = 0;  ///< of training, validation excluded
  double items_per_s = 0;
};

struct Result {
  std::vector<EpochReport> epochs;  ///< complete ones only
  double seconds = 0;               ///< of training, validation excluded
  double items_per_s = 0;
  bool interrupted = false;  ///< ended early by Ctrl-C
};

/// Where the progress is shown: rewritten in place on a terminal, else as plain
/// lines.
enum class Progress : std::uint8_t { none, standard_output, standard_error };

/// Maps the model's output and the targets to a scalar.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

struct TrainerOptions {
  std::int64_t epochs = 1;
  /// Cross-entropy unless given.
  Loss loss = {};
  /// Stepped after every step of the optimizer, or after every epoch. May be
  /// null.
  optim::LRScheduler* scheduler = nullptr;
  bool step_scheduler_per_epoch = false;
  /// Gets metrics.jsonl (one line per epoch) and, at the end,
  /// model.safetensors; empty for neither.
  std::string run_folder = {};
  Progress progress = Progress::none;
  /// On SIGINT, finish the step and end; a second SIGINT kills the process as
  /// usual.
  bool stop_on_interrupt = true;
  std::function<void(const StepReport&)> on_step = {};
  std::function<void(const EpochReport&)> on_epoch = {};
};

/// Trains a classifier:
///
///   train::Trainer trainer(model, optimizer, {.epochs = 5, .run_folder =
///   "runs/first"}); trainer.fit(loader, &validation_loader);
///
/// Model and optimizer must outlive the trainer.
class FACULA_API Trainer {
 public:
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options = {});

  /// Trains for the given number of epochs. Throws ValueError, naming the step,
  /// the learning rate and the last good loss, as soon as a loss is not finite;
  /// the update that it would cause is not made. Throws IoError if the run
  /// folder cannot be written.
  Result fit(const data::DataLoader& training, const data::DataLoader* validation = nullptr);

 private:
  struct Run;

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
};

/// Loss and accuracy of `model` in eval mode, which is left as it was. Throws
/// ValueError if there is nothing to evaluate. `loss`: cross-entropy unless
/// given.
FACULA_API Metrics evaluate(nn::Module& model, const data::DataLoader& loader,
                            const Loss& loss = {});

}  // namespace facula::train
