#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <facula/autograd.h>
#include <facula/nn/loss.h>
#include <facula/train.h>
#include <facula/version.h>

#include "base/check.h"
#include "base/interrupt.h"
#include "io/checkpoint.h"
#include "train/checkpointer.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/run_state.h"

namespace facula::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Cross-entropy is the loss of classes.
void complete(Loss& loss, std::optional<bool>& accuracy) {
  if (loss) return;
  loss = nn::CrossEntropyLoss();
  if (!accuracy) accuracy = true;
}

Tensor loss_of(const char* owner, const Loss& loss, const Tensor& output,
               const data::Batch& batch) {
  Tensor value = loss(output, batch[1]);
  check<ShapeError>(value.defined() && value.numel() == 1,
                    "{}: the loss has size {}, for an output of size {} and targets of size {}; "
                    "reduce it to one number, as mean() does",
                    owner, value.defined() ? value.sizes().str() : "none", output.sizes().str(),
                    batch[1].sizes().str());
  return value;
}

/// An optimizer of other tensors would train nothing. One of a part that only the loss knows has
/// their gradients; hooks may have used up those of the model.
void check_trains(const nn::Module& model, const optim::Optimizer& optimizer) {
  const auto of_model = model.parameters();
  const auto trained = optimizer.parameters();
  check<ValueError>(std::ranges::any_of(
                        trained,
                        [&](const Tensor& one) {
                          const auto same = [&](const Tensor& other) { return other.is_same(one); };
                          return one.grad().defined() || std::ranges::any_of(of_model, same);
                        }),
                    "Trainer: none of the optimizer's {} parameters is the model's, and the loss "
                    "depends on none; make the optimizer of the parameters of this model",
                    trained.size());
}

/// The weights of a run are the model's: those of a part that is none of its members would be gone.
void check_has_weights(const nn::Module& model, const optim::Optimizer& optimizer) {
  check<ValueError>(!model.state_dict().empty(),
                    "Trainer: there is nothing in the model's state_dict(), so model.safetensors "
                    "would lack the optimizer's {} parameters; register the module that has them "
                    "as a member of the model, with *this and a name",
                    optimizer.parameters().size());
}

Score score_of(const EpochReport& report) {
  if (const auto& validation = report.validation) {
    if (!validation->has_accuracy()) return {"validation loss", -validation->loss};
    return {"validation accuracy", validation->accuracy};
  }
  return {"training loss", -report.training.loss};
}

/// They become keys of a checkpoint, where dots divide paths.
void check_names(const std::vector<std::pair<std::string, std::string>>& run_options) {
  std::set<std::string> names;
  for (const auto& [name, value] : run_options) {
    check<ValueError>(!name.empty() && name.find('.') == std::string::npos,
                      "Trainer: the run option '{}' needs a name without dots", name);
    check<ValueError>(names.insert(name).second, "Trainer: the run option '{}' comes twice", name);
  }
}

/// A model in eval mode, until this ends. Parts of it may have been in it before.
class EvalMode {
 public:
  explicit EvalMode(nn::Module& model) {
    model.apply([this](nn::Module& module) { were_.emplace_back(&module, module.is_training()); });
    model.eval();
  }
  ~EvalMode() {
    // train() reaches the modules below, which stand before those above them.
    for (auto were = were_.rbegin(); were != were_.rend(); ++were) were->first->train(were->second);
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<nn::Module*, bool>> were_;
};

/// Nothing if `interrupt` came before the end.
std::optional<Metrics> evaluate_until(nn::Module& model, const data::DataLoader& loader,
                                      const Loss& loss, std::optional<bool> accuracy,
                                      const base::InterruptGuard* interrupt) {
  if (const auto& dataset = loader.dataset()) {  // no stream
    check<ValueError>(loader.size() >= 1, "evaluate: {} samples make no batch of {}",
                      dataset->size(), loader.options().batch_size);
  }
  const EvalMode eval_mode(model);
  Totals totals;
  bool complete = true;
  {
    const NoGradGuard no_grad;
    for (const auto& batch : loader.epoch(0)) {
      complete = !(interrupt && interrupt->interrupted());
      if (!complete) break;
      const Tensor output = model(batch[0]);
      const auto value = loss_of("evaluate", loss, output, batch).item<double>();
      check<ValueError>(std::isfinite(value),
                        "evaluate: the loss of a batch is {}; look for NaN and infinity in the "
                        "model's weights and buffers and in the data",
                        std::isnan(value) ? "NaN" : "infinite");
      totals.add("evaluate", value, batch, output, accuracy);
    }
  }
  check<ValueError>(totals.samples > 0 || !complete, "evaluate: the loader yields no batch");
  return complete ? std::optional(totals.average()) : std::nullopt;
}

}  // namespace

std::string Metrics::str() const {
  if (!has_accuracy()) return fmt::format("loss {:.4f}", loss);
  return fmt::format("loss {:.4f}  accuracy {:.2f} %", loss, 100 * accuracy);
}

/// The state of one call of fit().
struct Trainer::Run {
  Run(Trainer& trainer, const data::DataLoader& loader)
      : options(trainer.options_),
        parts{trainer.model_, trainer.optimizer_, loader, trainer.options_},
        display(options.progress, options.epochs, loader.size()),
        folder(options.run_folder),
        interrupt(options.stop_on_interrupt),
        checkpoints(folder.checkpoints(), options.checkpoints.keep_last,
                    options.checkpoints.keep_best),
        checkpointer(checkpoints, checkpoint_options(),
                     [this](const std::string& text) { display.warning(text); }) {}

  CheckpointOptions checkpoint_options() const {
    CheckpointOptions wanted = options.checkpoints;
    wanted.enabled &= folder.exists();
    return wanted;
  }
  Moment moment() const { return {.step = state.steps, .epoch = state.epoch}; }
  StateDict captured() const { return capture(parts, state); }

  void begin();
  std::int64_t resume(const std::vector<CheckpointFolder::File>& files);
  bool train_epoch();
  bool next_batch(data::Epoch& epoch, data::Batch& batch);
  void train_step(const data::Batch& batch);
  bool finish_epoch(const data::DataLoader* validation);
  void show(const EpochReport& report);

  const TrainerOptions& options;
  const RunParts parts;
  ProgressDisplay display;
  RunFolder folder;
  base::InterruptGuard interrupt;
  CheckpointFolder checkpoints;
  Checkpointer checkpointer;

  RunState state;
  std::int64_t resumed_from = 0;
  std::string loader_decision;
  std::optional<EpochReport> untold;
  // Of this call: training, and what of it was the loader's.
  double seconds = 0, loader_seconds = 0;
};

void Trainer::Run::begin() {
  state.loader = parts.training.state_dict();
  if (folder.exists()) {
    const auto files = checkpoints.files();
    if (options.start == Start::overwrite) {
      checkpoints.remove_all();
      folder.remove_results();  // beside this run's metrics they would pass for its own
    } else if (!files.empty()) {
      check<ValueError>(options.start == Start::resume,
                        "Trainer: '{}' holds checkpoints of an earlier run; resume it "
                        "(Start::resume, --resume), discard them (Start::overwrite, --overwrite), "
                        "or choose another run folder",
                        options.run_folder);
      resumed_from = resume(files);
    } else {
      const bool resumes = options.start == Start::resume;
      // One to resume may have been killed before its first checkpoint.
      check<ValueError>(!folder.has_results() && (resumes || !folder.has_metrics()),
                        "Trainer: '{}' holds the results of an earlier run{}; overwrite them "
                        "(Start::overwrite, --overwrite), or choose another run folder",
                        options.run_folder, resumes ? " and no checkpoint to resume" : "");
      if (resumes) {
        display.message("there is no checkpoint in " + checkpoints.path() + "; the run begins");
      }
    }
    folder.begin(state.history);
  }
  // Parts of a model that trains may be in eval mode: frozen normalization.
  if (!parts.model.is_training()) parts.model.train();
}

/// Puts everything into the state of the newest usable checkpoint and returns its step.
std::int64_t Trainer::Run::resume(const std::vector<CheckpointFolder::File>& files) {
  std::string skipped;
  for (const auto& file : files) {
    try {
      // Copies would have to find room beside the state that they go into.
      const StateDict checkpoint = io::map_checkpoint(file.path);
      check_run_options(options, checkpoint, file.path);
      state = restore(parts, checkpoint);
      checkpointer.resumed(moment(), checkpoint);
      display.resume(state.steps);
      const bool over = state.epoch > options.epochs;
      display.message(
          fmt::format("resumed from {}: step {}, {}", file.path, state.steps,
                      over ? "where the run is complete" : fmt::format("epoch {}", state.epoch)));
      const std::string& version = checkpoint.text("facula_version");
      if (version != kVersion) {
        display.warning(
            fmt::format("Facula {} wrote the checkpoint, this is {}: results may "
                        "differ in rounding from an uninterrupted run's",
                        version, kVersion));
      }
      return state.steps;
    } catch (const RunOptionsError&) {
      throw;
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& error) {
      display.warning(fmt::format("skipped {}: {}", file.path, error.what()));
      skipped += fmt::format("\n  {}: {}", file.path, error.what());
    }
  }
  fail<IoError>(
      "none of the {} checkpoints in '{}' can be used:{}\nTo begin anew, discard them "
      "(Start::overwrite, --overwrite) or choose another run folder",
      files.size(), checkpoints.path(), skipped);
}

/// True if the epoch is complete, which takes fewer steps where batches are left out.
bool Trainer::Run::train_epoch() {
  const double before = state.epoch_seconds, all_before = state.seconds;
  const auto start = Clock::now();
  // If all but its validation was done when the run was interrupted, no batch is left.
  data::Epoch epoch = parts.training.epoch(state.epoch - 1);
  double spent = 0;
  bool exhausted = true;
  for (data::Batch batch; next_batch(epoch, batch);) {
    train_step(batch);
    spent = seconds_since(start);
    state.epoch_seconds = before + spent;
    state.seconds = all_before + spent;
    exhausted = !interrupt.interrupted();
    if (!exhausted) break;
    display.step(state.epoch, state.epoch_steps, state.totals.average(),
                 static_cast<double>(state.totals.samples) / state.epoch_seconds);
    // The end of the epoch has its own.
    if (!epoch.is_over()) {
      checkpointer.after_step(moment(), [&] {
        state.loader = epoch.state_dict();
        return captured();
      });
    }
  }
  // The loader's own may be that of an evaluation by now.
  state.loader = epoch.state_dict();
  seconds += spent;
  check<ValueError>(state.epoch_steps > 0 || !exhausted,
                    "train: the loader yields no batch in epoch {}; look for warnings about "
                    "samples that it left out, or pass a loader that has no saved position",
                    state.epoch);
  return exhausted || epoch.is_over();
}

bool Trainer::Run::next_batch(data::Epoch& epoch, data::Batch& batch) {
  const auto start = Clock::now();
  const bool more = epoch.next(batch);
  if (more) loader_seconds += seconds_since(start);
  return more;
}

void Trainer::Run::train_step(const data::Batch& batch) {
  optim::Optimizer& optimizer = parts.optimizer;
  optimizer.zero_grad();
  const Tensor output = parts.model(batch[0]);
  const Tensor loss = loss_of("Trainer", options.loss, output, batch);
  const auto value = loss.item<double>();
  state.last_lr = optimizer.lr();
  ++state.steps;
  ++state.epoch_steps;
  check<ValueError>(std::isfinite(value),
                    "train: the loss is {} at step {} (epoch {}) with learning rate {}{}. Lower "
                    "the learning rate, clip gradients (clip_grad_norm, --clip-grad-norm), or look "
                    "for NaN in the data; autograd::AnomalyMode (--anomaly) stops at the first NaN "
                    "of a gradient",
                    std::isnan(value) ? "NaN" : "infinite", state.steps, state.epoch, state.last_lr,
                    state.steps == 1 ? std::string()
                                     : fmt::format("; the last good loss was {} at step {}",
                                                   state.last_good_loss, state.steps - 1));
  state.last_good_loss = value;
  {
    const NoGradGuard no_grad;
    state.totals.add("Trainer", value, batch, output, options.accuracy);
  }
  loss.backward();
  if (state.steps == 1) {
    check_trains(parts.model, optimizer);
    if (folder.exists()) check_has_weights(parts.model, optimizer);
  }
  if (options.clip_grad_norm > 0) {
    nn::utils::clip_grad_norm_(optimizer.parameters(), options.clip_grad_norm);
  }
  optimizer.step();
  if (options.scheduler && !options.step_scheduler_per_epoch) options.scheduler->step();
  if (options.on_step) {
    options.on_step(
        {.epoch = state.epoch, .step = state.steps, .loss = value, .lr = state.last_lr});
  }
}

/// Validates, reports and writes a checkpoint. False if an interrupt came before the validation
/// was done.
bool Trainer::Run::finish_epoch(const data::DataLoader* validation) {
  EpochReport report{
      .epoch = state.epoch,
      .steps = state.steps,
      .training = state.totals.average(),
      .validation = std::nullopt,
      .lr = state.last_lr,
      .seconds = state.epoch_seconds,
      .items_per_s = static_cast<double>(state.totals.samples) / state.epoch_seconds};
  if (validation) {
    report.validation =
        evaluate_until(parts.model, *validation, options.loss, options.accuracy, &interrupt);
    if (!report.validation) return false;
  }
  if (options.scheduler && options.step_scheduler_per_epoch) options.scheduler->step();
  if (options.plateau) {
    options.plateau->step(report.validation ? report.validation->loss : report.training.loss);
  }
  // After an interrupt nobody may be reading any more: what is to be saved comes first.
  if (interrupt.interrupted()) {
    untold = report;
  } else {
    show(report);
  }
  state.history.push_back(report);
  state.items += state.totals.samples;
  state.totals = {};
  state.epoch_seconds = 0;
  state.epoch_steps = 0;
  ++state.epoch;
  const std::string problem = folder.add(state.history);
  if (!problem.empty()) display.warning("the metrics of an epoch are not written: " + problem);
  if (options.on_epoch) options.on_epoch(report);
  checkpointer.after_epoch(moment(), score_of(report), [this] { return captured(); });
  return true;
}

/// An epoch, and what the loader has decided when that is new.
void Trainer::Run::show(const EpochReport& report) {
  display.epoch(report);
  std::string decision = parts.training.decision();
  if (decision == loader_decision) return;
  loader_decision = std::move(decision);
  if (!loader_decision.empty()) display.message("data loader: " + loader_decision);
}

Trainer::Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options)
    : model_(model), optimizer_(optimizer), options_(std::move(options)) {
  check<ValueError>(options_.epochs >= 1, "Trainer: epochs is {}, must be at least 1",
                    options_.epochs);
  check<ValueError>(options_.checkpoints.keep_last >= 1,
                    "Trainer: checkpoints.keep_last is {}, must be at least 1",
                    options_.checkpoints.keep_last);
  check<ValueError>(options_.clip_grad_norm >= 0 && std::isfinite(options_.clip_grad_norm),
                    "Trainer: clip_grad_norm is {}, must be a number >= 0",
                    options_.clip_grad_norm);
  check<ValueError>(
      options_.checkpoints.every_steps >= 0 && options_.checkpoints.every_seconds >= 0,
      "Trainer: checkpoints are taken every {} steps or {} seconds, must be numbers "
      ">= 0",
      options_.checkpoints.every_steps, options_.checkpoints.every_seconds);
  check_names(options_.run_options);
  const bool own_schedule =
      (!options_.scheduler || &options_.scheduler->optimizer() == &optimizer_) &&
      (!options_.plateau || &options_.plateau->optimizer() == &optimizer_);
  check<ValueError>(own_schedule,
                    "Trainer: the learning rate schedule belongs to another optimizer; make it for "
                    "the one that trains");
  complete(options_.loss, options_.accuracy);
}

Result Trainer::fit(const data::DataLoader& training, const data::DataLoader* validation) {
  check<ValueError>(training.dataset() != nullptr,
                    "Trainer: the loader reads a stream, of which nobody knows how many batches an "
                    "epoch has; train from a Dataset");
  check<ValueError>(training.size() >= 1,
                    "Trainer: {} samples make no batch of {}; lower the batch size",
                    training.dataset()->size(), training.options().batch_size);
  Run run(*this, training);
  run.begin();
  bool complete = true;
  while (complete && run.state.epoch <= options_.epochs && !run.interrupt.interrupted()) {
    complete = run.train_epoch() && run.finish_epoch(validation);
  }
  const RunState& state = run.state;
  Result result{
      .epochs = state.history,
      .seconds = state.seconds,
      .items_per_s = static_cast<double>(state.items + state.totals.samples) / state.seconds,
      .loader_share = run.seconds > 0 ? run.loader_seconds / run.seconds : 0,
      .steps = state.steps,
      .resumed_from = run.resumed_from};
  result.interrupted = state.epoch <= options_.epochs;
  std::exception_ptr problem;
  try {
    run.checkpointer.finish(run.moment(), [&run] { return run.captured(); });
  } catch (const IoError&) {
    problem = std::current_exception();  // there may be room for the weights all the same
  }
  // Weights that no step has changed are no results.
  if (state.steps > 0) run.folder.finish(model_, state.history);
  result.resumable = run.folder.exists() && !run.checkpoints.files().empty();
  if (run.untold) run.show(*run.untold);
  if (result.interrupted) {
    run.display.message(fmt::format(
        "interrupted after step {}; {}", state.steps,
        result.resumable ? "the run can be resumed" : "there is no checkpoint to resume"));
  }
  if (problem) std::rethrow_exception(problem);
  result.signal = run.interrupt.signal();
  return result;
}

Metrics evaluate(nn::Module& model, const data::DataLoader& loader, const Loss& loss,
                 std::optional<bool> accuracy) {
  Loss chosen = loss;
  complete(chosen, accuracy);
  return *evaluate_until(model, loader, chosen, accuracy, nullptr);
}

}  // namespace facula::train
