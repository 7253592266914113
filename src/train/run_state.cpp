#include "train/run_state.h"

#include <algorithm>
#include <set>
#include <string>

#include <facula/autograd.h>
#include <facula/generator.h>
#include <facula/version.h>

#include "base/check.h"
#include "train/checkpoint_writer.h"
#include "tuner/selector.h"

namespace facula::train {
namespace {

// --- History: a row of numbers per epoch ---------------------------------------------------------

constexpr std::int64_t kColumns = 10;

Tensor tensor_of(const std::vector<EpochReport>& history) {
  std::vector<double> cells;
  for (const EpochReport& report : history) {
    const Metrics none{std::nan(""), std::nan("")};
    const Metrics validation = report.validation.value_or(none);
    cells.insert(cells.end(), {static_cast<double>(report.epoch), static_cast<double>(report.steps),
                               report.training.loss, report.training.accuracy,
                               report.validation ? 1.0 : 0.0, validation.loss, validation.accuracy,
                               report.lr, report.seconds, report.items_per_s});
  }
  return tensor(cells, {static_cast<std::int64_t>(history.size()), kColumns}, kFloat64);
}

std::vector<EpochReport> history_of(const Tensor& table) {
  check<ValueError>(table.dim() == 2 && table.size(1) == kColumns && table.dtype() == kFloat64,
                    "the checkpoint's history is {} of size {}, expected float64 [*, {}]",
                    name_of(table.dtype()), table.sizes().str(), kColumns);
  const std::vector<double> cells = table.to_vector<double>();
  std::vector<EpochReport> history;
  for (auto row = cells.begin(); row != cells.end(); row += kColumns) {
    EpochReport report{.epoch = static_cast<std::int64_t>(row[0]),
                       .steps = static_cast<std::int64_t>(row[1]),
                       .training = {row[2], row[3]},
                       .validation = std::nullopt,
                       .lr = row[7],
                       .seconds = row[8],
                       .items_per_s = row[9]};
    if (row[4] != 0) report.validation = Metrics{row[5], row[6]};
    history.push_back(report);
  }
  return history;
}

StateDict numbers_of(const RunState& state) {
  StateDict numbers;
  numbers.set("epoch", state.epoch);
  numbers.set("epoch_steps", state.epoch_steps);
  numbers.set("steps", state.steps);
  numbers.set("items", state.items);
  numbers.set("loss_sum", state.totals.loss);
  numbers.set("correct", state.totals.correct);
  numbers.set("labels", state.totals.labels);
  numbers.set("samples", state.totals.samples);
  numbers.set("seconds", state.seconds);
  numbers.set("epoch_seconds", state.epoch_seconds);
  numbers.set("last_lr", state.last_lr);
  numbers.set("last_good_loss", state.last_good_loss);
  return numbers;
}

RunState state_of(const StateDict& numbers) {
  RunState state;
  state.epoch = numbers.integer("epoch");
  state.epoch_steps = numbers.integer("epoch_steps");
  state.steps = numbers.integer("steps");
  state.items = numbers.integer("items");
  // Older checkpoints have no labels: they counted one per sample.
  state.totals = {.loss = numbers.number("loss_sum"),
                  .correct = numbers.integer("correct"),
                  .labels = numbers.integer(numbers.contains("labels") ? "labels" : "samples"),
                  .samples = numbers.integer("samples")};
  state.seconds = numbers.number("seconds");
  state.epoch_seconds = numbers.number("epoch_seconds");
  state.last_lr = numbers.number("last_lr");
  state.last_good_loss = numbers.number("last_good_loss");
  return state;
}

StateDict generator_state() {
  StateDict state;
  state.set("seed", static_cast<std::int64_t>(default_generator().seed()));
  state.set("offset", static_cast<std::int64_t>(default_generator().offset()));
  return state;
}

/// Both or neither: a schedule that begins anew in the middle of a run is no resumed run.
void check_presence(const char* name, bool saved, bool present) {
  check<ValueError>(saved == present, "the checkpoint was written {} a {}, this run has {}",
                    saved ? "with" : "without", name, present ? "one" : "none");
}

/// The parameters that the optimizer trains but the model does not have, such as a temperature that
/// only the loss knows.
std::vector<Tensor> loose_parameters(const RunParts& parts) {
  std::set<const TensorImpl*> of_model;
  for (const Tensor& one : parts.model.parameters()) of_model.insert(one.impl());
  std::vector<Tensor> loose = parts.optimizer.parameters();
  std::erase_if(loose, [&](const Tensor& one) { return of_model.contains(one.impl()); });
  return loose;
}

/// They have no names, so their order tells which is which.
StateDict values_of(const std::vector<Tensor>& loose) {
  StateDict state;
  for (std::size_t i = 0; i < loose.size(); ++i) state.set(std::to_string(i), loose[i].detach());
  return state;
}

void load_values(const StateDict& saved, const std::vector<Tensor>& loose) {
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < loose.size(); ++i) {
    Tensor(loose[i]).copy_(saved.tensor(std::to_string(i)));
  }
}

void check_fits(const StateDict& saved, const std::vector<Tensor>& loose) {
  check<ValueError>(
      saved.entries().size() == loose.size(),
      "the checkpoint holds {} parameters that the optimizer trains but the model does not have, "
      "this run has {}; give the optimizer the same ones, or make them members of the model",
      saved.entries().size(), loose.size());
  for (std::size_t i = 0; i < loose.size(); ++i) {
    const Tensor& value = saved.tensor(std::to_string(i));
    check<ValueError>(value.sizes() == loose[i].sizes(),
                      "parameter {} of those that the optimizer trains but the model does not have "
                      "is of size {} in the checkpoint, of size {} in this run; give the optimizer "
                      "the same ones in the same order",
                      i, value.sizes().str(), loose[i].sizes().str());
  }
}

/// The position in the loader's epoch that belongs to the progress.
StateDict position_of(const RunState& state, const StateDict& saved) {
  StateDict position = saved;
  if (state.epoch_steps == 0) {
    // What the loader did last is over: the epoch before, or validation.
    position.set("epoch", state.epoch - 1);
    position.set("position", 0);
    return position;
  }
  const std::int64_t epoch = saved.integer("epoch") + 1;
  check<ValueError>(epoch == state.epoch,
                    "the checkpoint was written in epoch {}, but its loader stands in epoch {}; "
                    "resume from another one, or begin anew",
                    state.epoch, epoch);
  return position;
}

}  // namespace

void Totals::add(const char* owner, double mean_loss, const data::Batch& batch,
                 const Tensor& output, std::optional<bool> accuracy) {
  const Tensor& target = batch[1];
  const std::int64_t count = batch[0].size(0);
  loss += mean_loss * static_cast<double>(count);
  samples += count;
  const bool are_labels = !target.is_floating_point() && target.dtype() != kBool;
  if (!accuracy.value_or(are_labels)) return;
  check<ShapeError>(output.dim() >= 2,
                    "{}: the model's output has size {}; classes, of which the accuracy tells, are "
                    "the second of at least two dimensions: unsqueeze(1) it in the model, or set "
                    "the accuracy to false",
                    owner, output.sizes());
  if (output.size(1) == 1) return;
  const Tensor predicted = output.argmax(1);
  // Mixed labels are shares of the classes.
  const Tensor label = target.sizes() == output.sizes() ? target.argmax(1) : target;
  check<ShapeError>(label.sizes() == predicted.sizes(),
                    "{}: for an output of size {}, targets are labels of size {} or shares of the "
                    "output's size, these have size {}; reshape them in the data set or its "
                    "transform, or set the accuracy to false if there are no classes",
                    owner, output.sizes(), predicted.sizes(), target.sizes());
  correct += predicted.eq(label).sum().item<std::int64_t>();
  labels += label.numel();
}

StateDict capture(const RunParts& parts, const RunState& state) {
  const NoGradGuard no_grad;
  const TrainerOptions& options = parts.options;
  StateDict result;
  result.set("facula_version", kVersion);
  StateDict run;
  for (const auto& [name, value] : options.run_options) run.set(name, value);
  result.set("run_options", std::move(run));
  result.set("progress", numbers_of(state));
  result.set("history", tensor_of(state.history));
  result.set("model", parts.model.state_dict());
  result.set("loose", values_of(loose_parameters(parts)));
  result.set("optimizer", parts.optimizer.state_dict());
  if (options.scheduler) result.set("scheduler", options.scheduler->state_dict());
  if (options.plateau) result.set("plateau", options.plateau->state_dict());
  result.set("generator", generator_state());
  result.set("loader", state.loader);
  result.set("tuning", tuner::tuning_record());
  if (options.save_extra) result.set("extra", options.save_extra());
  return result;
}

void check_run_options(const TrainerOptions& options, const StateDict& checkpoint,
                       const std::string& path) {
  const StateDict& saved = checkpoint.dict("run_options");
  for (const auto& [name, value] : options.run_options) {
    const StateValue* entry = saved.find(name);
    const auto* text = entry ? entry->get_if<std::string>() : nullptr;
    check<RunOptionsError>(
        text && *text == value,
        "{}: {} is '{}' in the run that wrote this checkpoint, but '{}' now; use the "
        "same to resume it, or another run folder for another run",
        path, name, text ? *text : "not given", value);
  }
  for (const auto& [name, value] : saved.entries()) {
    const bool given =
        std::any_of(options.run_options.begin(), options.run_options.end(),
                    [&name = name](const auto& option) { return option.first == name; });
    check<RunOptionsError>(
        given,
        "{}: {} is given in the run that wrote this checkpoint, but not now; use "
        "the same to resume it, or another run folder for another run",
        path, name);
  }
}

RunState restore(const RunParts& parts, const StateDict& checkpoint) {
  const TrainerOptions& options = parts.options;
  check_presence("scheduler", checkpoint.contains("scheduler"), options.scheduler != nullptr);
  check_presence("plateau schedule", checkpoint.contains("plateau"), options.plateau != nullptr);
  RunState state = state_of(checkpoint.dict("progress"));
  state.history = history_of(checkpoint.tensor("history"));
  state.loader = position_of(state, snapshot_of(checkpoint.dict("loader")));
  const std::vector<Tensor> loose = loose_parameters(parts);
  if (checkpoint.contains("loose")) {
    check_fits(checkpoint.dict("loose"), loose);
    parts.model.load_state_dict(checkpoint.dict("model"));
    load_values(checkpoint.dict("loose"), loose);
  } else {
    // Of an older version: what the program has saved of its own may have them.
    check<ValueError>(loose.empty() || (options.load_extra && checkpoint.contains("extra")),
                      "the optimizer trains {} parameters that the model does not have, which the "
                      "version of Facula that wrote the checkpoint left out; begin anew",
                      loose.size());
    parts.model.load_state_dict(checkpoint.dict("model"));
  }
  if (options.scheduler) options.scheduler->load_state_dict(checkpoint.dict("scheduler"));
  if (options.plateau) options.plateau->load_state_dict(checkpoint.dict("plateau"));
  // After the schedules: it has the rates as they were, whoever set them.
  parts.optimizer.load_state_dict(checkpoint.dict("optimizer"));
  if (options.load_extra) {
    options.load_extra(checkpoint.contains("extra") ? snapshot_of(checkpoint.dict("extra"))
                                                    : StateDict());
  }
  // Copies of a loader share their position.
  data::DataLoader(parts.training).load_state_dict(state.loader);
  tuner::load_tuning_record(checkpoint.dict("tuning"));
  default_generator().set_state(static_cast<std::uint64_t>(checkpoint.integer("generator.seed")),
                                static_cast<std::uint64_t>(checkpoint.integer("generator.offset")));
  return state;
}

}  // namespace facula::train
