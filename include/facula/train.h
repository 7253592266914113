// The training loop: epochs, validation, progress, metrics, checkpoints, a clean end on Ctrl-C and
// SIGTERM.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <facula/data.h>
#include <facula/nn/module.h>
#include <facula/optim.h>

namespace facula::train {

/// Averages over samples. The accuracy is the share, in [0, 1], of labels that are the class of the
/// greatest output: one label per sample, or per position where the output is [N, C, *]. It is NaN
/// where outputs are no scores of classes.
struct FACULA_API Metrics {
  double loss = 0;
  double accuracy = 0;

  bool has_accuracy() const { return accuracy == accuracy; }
  /// "loss 0.2513  accuracy 91.25 %", or the loss alone.
  std::string str() const;
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
  /// What the loader takes: the share of this call's training, in [0, 1], that passed in waiting
  /// for batches or making them between steps.
  double loader_share = 0;
  bool interrupted = false;       ///< ended early by a signal
  int signal = 0;                 ///< SIGINT or SIGTERM, if one came, even after the last step
  bool resumable = false;         ///< there is a checkpoint to go on from
  std::int64_t steps = 0;         ///< done in all
  std::int64_t resumed_from = 0;  ///< the step of the checkpoint it went on from
};

/// Where the progress is shown: rewritten in place on a terminal, else as plain lines.
enum class Progress : std::uint8_t { none, standard_output, standard_error };

/// When checkpoints are written to `checkpoints/` in the run folder, and which are kept. A thread
/// of its own writes them; training waits while the tensors are copied, and where it lacks memory
/// for them, or beside them, until they are written. One that is due while another is being written
/// is postponed. A failure to write is a warning, and tried again within a minute; the last good
/// checkpoint stays.
struct CheckpointOptions {
  bool enabled = true;
  double every_seconds = 600;    ///< 0: whatever the time
  std::int64_t every_steps = 0;  ///< 0: whatever the step
  bool every_epoch = true;       ///< after its validation
  std::int64_t keep_last = 2;
  /// Also, of those after epochs, the one with the best validation accuracy, with the least
  /// validation loss where there is no accuracy, or without validation with the least training
  /// loss.
  bool keep_best = true;
};

/// What to do with the checkpoints, weights and metrics that the run folder holds.
enum class Start : std::uint8_t {
  fresh,      ///< refuse to start if there are any
  resume,     ///< go on from the newest usable one; begin if there are none and no weights
  overwrite,  ///< remove them, and the weights of the run before, and begin
};

/// Maps output and targets to a scalar.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

struct TrainerOptions {
  std::int64_t epochs = 1;
  /// Cross-entropy unless given.
  Loss loss = {};
  /// Whether outputs are scores of classes, of which the accuracy is told. Unless said: yes without
  /// a loss of one's own, and with one where targets are integers. Scores of C classes: [N, C] or
  /// [N, C, *]; targets: labels, of the output's size without C, or shares of the classes, of the
  /// output's size. Outputs [N, 1] and [N, 1, *] have no accuracy.
  std::optional<bool> accuracy = {};
  /// Stepped after every step of the optimizer, or after every epoch. May be null.
  optim::LRScheduler* scheduler = nullptr;
  bool step_scheduler_per_epoch = false;
  /// Gets the validation loss after every epoch, or without validation the training loss. It and
  /// the scheduler act together. May be null.
  optim::ReduceLROnPlateau* plateau = nullptr;
  /// Scales the gradients of every step down to this norm of all together; 0: never.
  double clip_grad_norm = 0;
  /// Gets metrics.jsonl (one line per epoch), checkpoints/ and, at the end, model.safetensors;
  /// empty for none of them. One run at a time can use it.
  std::string run_folder = {};
  CheckpointOptions checkpoints = {};
  Start start = Start::fresh;
  /// What a run must have in common with the one whose checkpoint it goes on from, as names and
  /// values: {{"model", "resnet18"}, {"seed", "1"}}. Names have no dots.
  std::vector<std::pair<std::string, std::string>> run_options = {};
  /// State of the program's own that belongs in a checkpoint, such as averaged weights.
  std::function<StateDict()> save_extra = {};
  std::function<void(const StateDict&)> load_extra = {};
  Progress progress = Progress::none;
  /// On SIGINT and SIGTERM, unless they are ignored, finish the step, write a checkpoint and end; a
  /// second signal kills the process as usual.
  bool stop_on_interrupt = true;
  std::function<void(const StepReport&)> on_step = {};
  std::function<void(const EpochReport&)> on_epoch = {};
};

/// Trains a model:
///
///   train::Trainer trainer(model, optimizer, {.epochs = 5, .run_folder = "runs/first"});
///   trainer.fit(loader, &validation_loader);
///
/// With a run folder, a run that was killed at any moment goes on from its last checkpoint, as if
/// nothing had happened: weights and metrics are the same bits, whatever the number of threads and
/// loader workers before and after.
///
///   train::Trainer trainer(model, optimizer, {.epochs = 5, .run_folder = "runs/first",
///                                             .start = train::Start::resume});
///
/// Parameters of the optimizer that are not the model's are in the checkpoints, but not among the
/// weights at the end; buffers of what has them are in neither (`save_extra`). The training loader
/// may serve evaluations, too, also during the run. Model and optimizer must outlive the trainer.
class FACULA_API Trainer {
 public:
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options = {});

  /// Trains for the given number of epochs. A model in eval mode goes into training mode; of one
  /// in training mode, modules below it may stay in eval mode. Throws ValueError, naming the step,
  /// the learning rate and the last good loss, as soon as a loss is not finite; the update that it
  /// would cause is not made. Throws ShapeError, before the first update, if output and targets are
  /// not as the loss and the accuracy take them; ValueError then, with a run folder, for a model
  /// with nothing in its state_dict(); IoError if the run folder is in use or cannot be written at
  /// the start or the end, and if it holds checkpoints of which none can be used; ValueError if it
  /// holds checkpoints of a run with other options, or any with Start::fresh, or weights and no
  /// checkpoint, or with Start::fresh metrics alone; with Start::overwrite it may hold anything.
  Result fit(const data::DataLoader& training, const data::DataLoader* validation = nullptr);

 private:
  struct Run;

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
};

/// Loss and accuracy of `model` in eval mode; afterwards each of its modules is in the mode that it
/// was in. Throws ValueError if there is nothing to evaluate. `loss` and `accuracy` as in
/// TrainerOptions.
FACULA_API Metrics evaluate(nn::Module& model, const data::DataLoader& loader,
                            const Loss& loss = {}, std::optional<bool> accuracy = {});

}  // namespace facula::train
