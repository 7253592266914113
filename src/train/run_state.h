// What a checkpoint holds: the parts of a run and how far it has come.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include <facula/data/data_loader.h>
#include <facula/nn/module.h>
#include <facula/optim.h>
#include <facula/state_dict.h>
#include <facula/train.h>

namespace facula::train {

/// Sums over samples and, for the accuracy, over their labels, from which averages come.
struct Totals {
  double loss = 0;
  std::int64_t correct = 0, labels = 0, samples = 0;

  /// Of one batch, whose first tensor is [N, *]. With an accuracy, throws ShapeError, naming
  /// `owner`, for an output that is not [N, C, *] or, where C > 1, a target that is neither labels
  /// [N, *] nor shares [N, C, *] of the classes.
  void add(const char* owner, double mean_loss, const data::Batch& batch, const Tensor& output,
           std::optional<bool> accuracy);
  Metrics average() const {
    return {loss / static_cast<double>(samples),
            static_cast<double>(correct) / static_cast<double>(labels)};
  }
};

/// How far a run has come.
struct RunState {
  std::int64_t epoch = 1;        // the one being trained, from 1
  std::int64_t epoch_steps = 0;  // done in it
  std::int64_t steps = 0, items = 0;
  Totals totals;                          // of the epoch
  double seconds = 0, epoch_seconds = 0;  // of training
  double last_lr = 0, last_good_loss = std::nan("");
  std::vector<EpochReport> history;
  StateDict loader;  // where the training loader's epoch stands
};

struct RunParts {
  nn::Module& model;
  optim::Optimizer& optimizer;
  const data::DataLoader& training;
  const TrainerOptions& options;
};

/// Everything that the rest of the run depends on. The tensors are shared with the parts.
StateDict capture(const RunParts& parts, const RunState& state);

/// The checkpoint belongs to a run with other options.
struct RunOptionsError : ValueError {
  using ValueError::ValueError;
};

/// The run options of a checkpoint must be those of this run: throws RunOptionsError naming the
/// first that is not.
void check_run_options(const TrainerOptions& options, const StateDict& checkpoint,
                       const std::string& path);

/// Puts the parts into the state of the checkpoint. Throws ValueError if they do not fit.
RunState restore(const RunParts& parts, const StateDict& checkpoint);

}  // namespace facula::train
