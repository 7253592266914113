#include "train/checkpointer.h"

#include <utility>

#include "base/check.h"

namespace facula::train {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds kRetry{60};       // after a failure, at the latest
constexpr Seconds kWarnAgain{600};  // while failures go on

}  // namespace

Checkpointer::Checkpointer(CheckpointFolder& folder, const CheckpointOptions& options, Warn warn)
    : folder_(folder),
      options_(options),
      warn_(std::move(warn)),
      writer_(folder, options.enabled),
      taken_(Clock::now()) {}

void Checkpointer::resumed(Moment moment, const StateDict& state) {
  last_ = moment;
  std::optional<std::int64_t> best;
  std::optional<Score> score;
  if (state.contains("best")) {
    best = state.integer("best.step");
    score = {.of = state.text("best.of"), .value = state.number("best.value")};
  }
  folder_.resumed_from(moment.step, best, std::move(score));
}

bool Checkpointer::due(std::int64_t step) const {
  const Seconds since = Clock::now() - taken_;
  if (options_.every_seconds > 0 && since.count() >= options_.every_seconds) return true;
  if (options_.every_steps > 0 && step / options_.every_steps > last_.step / options_.every_steps) {
    return true;
  }
  return !error_.empty() && since >= kRetry;
}

void Checkpointer::after_step(Moment moment, Capture capture) {
  if (!options_.enabled) return;
  report();
  if (!waiting_ && !due(moment.step)) return;
  if (writer_.busy()) return postpone();
  start(moment, std::nullopt, capture);
}

void Checkpointer::after_epoch(Moment moment, const Score& score, Capture capture) {
  if (!options_.enabled) return;
  report();
  if (!options_.every_epoch && !waiting_ && !due(moment.step)) return;
  if (writer_.busy()) {
    // Any other moment will do as well, but a best model that is not kept now is lost.
    if (!options_.keep_best) return postpone();
    writer_.wait();
    report();
  }
  start(moment, score, capture);
}

void Checkpointer::finish(Moment moment, Capture capture) {
  if (!options_.enabled) return;
  writer_.wait();
  report();
  if (!(last_ == moment) || !error_.empty()) {
    start(moment, std::nullopt, capture);
    writer_.wait();
    if (const auto outcome = writer_.outcome()) error_ = outcome->error;
  }
  check<IoError>(
      error_.empty(), "the last checkpoint is not written: {}{}", error_,
      folder_.last() ? fmt::format("; that of step {} is the newest", *folder_.last()) : "");
}

void Checkpointer::start(Moment moment, const std::optional<Score>& score, Capture capture) {
  report();
  waiting_ = false;
  last_ = moment;
  taken_ = Clock::now();
  const bool is_best = score && score->better_than(folder_.best_score());
  const auto& best_score = is_best ? score : folder_.best_score();
  try {
    StateDict state = capture();
    if (best_score) {
      state.set("best.step", is_best ? moment.step : *folder_.best());
      state.set("best.of", best_score->of);
      state.set("best.value", best_score->value);
    }
    if (!writer_.start(moment.step, state, score)) writer_.wait();
  } catch (const OutOfMemory& error) {
    report_failure(error.what());
  }
}

void Checkpointer::postpone() {
  waiting_ = true;
  if (std::exchange(said_postponed_, true)) return;
  warn_(
      "a checkpoint is due while the one before is still being written; it is postponed until "
      "that is done, as are others without further notice");
}

void Checkpointer::report() {
  const auto outcome = writer_.outcome();
  if (!outcome) return;
  if (!outcome->error.empty()) {
    report_failure(outcome->error);
  } else if (!error_.empty()) {
    error_.clear();
    warn_(fmt::format("checkpoints are being written again: that of step {}", outcome->step));
  }
}

void Checkpointer::report_failure(const std::string& error) {
  const auto now = Clock::now();
  const bool again = !error_.empty();
  error_ = error;
  if (again && now - warned_ < kWarnAgain) return;
  warned_ = now;
  warn_(fmt::format("a checkpoint is not written: {}; training goes on, {}", error,
                    folder_.last() ? fmt::format("the checkpoint of step {} stays", *folder_.last())
                                   : "without a checkpoint so far"));
}

}  // namespace facula::train
