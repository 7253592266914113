// Closed forms of torch/optim/lr_scheduler.py.
#include <facula/optim/lr_scheduler.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "optim/check_options.h"

namespace facula::optim {
namespace {

std::vector<double> rates_of(const Optimizer& optimizer) {
  std::vector<double> rates;
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) rates.push_back(optimizer.lr(g));
  return rates;
}

/// `milestones`: in ascending order.
void check_milestones(const std::vector<std::int64_t>& milestones, const char* schedule) {
  check<ValueError>(milestones.empty() || milestones[0] >= 0,
                    "{}: milestone {} is negative; they count steps from the start", schedule,
                    milestones.empty() ? 0 : milestones[0]);
}

/// What a rate of a formula is measured from, and the rate.
struct Level {
  double floor, rate;
};

/// What becomes of `current` when the formula goes from one level to the next, as in PyTorch's
/// recursive forms: its distance from the floor changes by the formula's factor. From the floor
/// itself, where there is no factor, the formula's step is added.
double chained(double current, Level before, Level after) {
  if (current == before.rate) return after.rate;
  if (after.rate == before.rate) return current;
  if (current < before.floor) before.floor = after.floor = 0;  // no rate below 0
  if (before.rate == before.floor) return current + (after.rate - before.rate);
  const double factor = (after.rate - after.floor) / (before.rate - before.floor);
  return after.floor + (current - before.floor) * factor;
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(&optimizer) {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    base_lrs_.push_back(optimizer.initial_lr(g));
  }
  formula_ = base_lrs_;
}

LRScheduler::~LRScheduler() = default;

void LRScheduler::set(std::int64_t position) {
  check<ValueError>(position >= 0, "LR schedule: position {} is negative", position);
  check<ValueError>(optimizer_->group_count() == base_lrs_.size(),
                    "LR schedule: made for {} parameter groups, the optimizer has {} now; add all "
                    "groups first",
                    base_lrs_.size(), optimizer_->group_count());
  const double low_before = floor(position_), low = floor(position);
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    const double formula = rate(g, position);
    const Level before{low_before, formula_[g]}, after{low, formula};
    optimizer_->set_lr(g, chained(optimizer_->lr(g), before, after));
    formula_[g] = formula;
  }
  adjust(position);
  position_ = position;
}

void LRScheduler::begin() {
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) optimizer_->set_lr(g, formula_[g]);
  set(0);
}

std::vector<double> LRScheduler::get_last_lr() const { return rates_of(*optimizer_); }

StateDict LRScheduler::state_dict() const {
  StateDict state;
  state.set("last_epoch", position_);
  state.set("base_lrs", StateDict());
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    state.set("base_lrs." + std::to_string(g), base_lrs_[g]);
    state.set("last_lr." + std::to_string(g), optimizer_->lr(g));
  }
  return state;
}

std::vector<double> LRScheduler::rates_from(const std::vector<double>& base_lrs, std::int64_t t) {
  const std::vector<double> own = base_lrs_;
  std::vector<double> rates;
  set_base_lrs(base_lrs);
  try {
    for (std::size_t g = 0; g < base_lrs_.size(); ++g) rates.push_back(rate(g, t));
  } catch (...) {
    set_base_lrs(own);
    throw;
  }
  set_base_lrs(own);
  return rates;
}

void LRScheduler::load_state_dict(const StateDict& state) {
  std::vector<double> base_lrs;
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    base_lrs.push_back(state.number("base_lrs." + std::to_string(g)));
  }
  check<ValueError>(state.dict("base_lrs").entries().size() == base_lrs.size(),
                    "LR schedule: the state has {} parameter groups, the optimizer {}",
                    state.dict("base_lrs").entries().size(), base_lrs.size());
  const std::int64_t position = state.integer("last_epoch");
  check<ValueError>(position >= 0, "LR schedule: the state's position {} is negative", position);
  // Everything is read and checked before anything is changed.
  const std::vector<double> formula = rates_from(base_lrs, position);
  std::vector<double> rates;
  for (std::size_t g = 0; g < base_lrs.size(); ++g) {
    // PyTorch calls them _last_lr. States of older versions have none; theirs were the formula's.
    const std::string group = std::to_string(g);
    const std::string saved =
        (state.contains("last_lr." + group) ? "last_lr." : "_last_lr.") + group;
    rates.push_back(state.contains(saved) ? state.number(saved) : formula[g]);
    check_not_negative(rates[g], "LR schedule", "last_lr");
  }
  set_base_lrs(base_lrs);
  formula_ = formula;
  for (std::size_t g = 0; g < rates.size(); ++g) optimizer_->set_lr(g, rates[g]);
  adjust(position);
  position_ = position;
}

// --- Decays --------------------------------------------------------------------------------------

StepLR::StepLR(Optimizer& optimizer, StepLROptions options)
    : LRScheduler(optimizer), options_(options) {
  check<ValueError>(options.step_size > 0, "StepLR: option step_size is {}, must be positive",
                    options.step_size);
  check_not_negative(options.gamma, "StepLR", "gamma");
  set(0);
}

double StepLR::rate(std::size_t group, std::int64_t t) const {
  const std::int64_t steps = t / options_.step_size;
  return base_lr(group) * std::pow(options_.gamma, static_cast<double>(steps));
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, MultiStepLROptions options)
    : LRScheduler(optimizer), options_(std::move(options)) {
  check_not_negative(options_.gamma, "MultiStepLR", "gamma");
  std::sort(options_.milestones.begin(), options_.milestones.end());
  check_milestones(options_.milestones, "MultiStepLR");
  set(0);
}

double MultiStepLR::rate(std::size_t group, std::int64_t t) const {
  const auto& milestones = options_.milestones;
  const auto passed =
      std::upper_bound(milestones.begin(), milestones.end(), t) - milestones.begin();
  return base_lr(group) * std::pow(options_.gamma, static_cast<double>(passed));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, ExponentialLROptions options)
    : LRScheduler(optimizer), options_(options) {
  check<ValueError>(options.gamma > 0 && std::isfinite(options.gamma),
                    "ExponentialLR: option gamma is {}, must be positive; it has no default: set "
                    "it, for example to 0.95",
                    options.gamma);
  set(0);
}

double ExponentialLR::rate(std::size_t group, std::int64_t t) const {
  return base_lr(group) * std::pow(options_.gamma, static_cast<double>(t));
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, CosineAnnealingLROptions options)
    : LRScheduler(optimizer), options_(options) {
  check<ValueError>(options.T_max > 0, "CosineAnnealingLR: option T_max is {}, must be positive",
                    options.T_max);
  check_not_negative(options.eta_min, "CosineAnnealingLR", "eta_min");
  set(0);
}

double CosineAnnealingLR::rate(std::size_t group, std::int64_t t) const {
  const double phase = M_PI * static_cast<double>(t) / static_cast<double>(options_.T_max);
  return options_.eta_min + (base_lr(group) - options_.eta_min) * (1 + std::cos(phase)) / 2;
}

LinearLR::LinearLR(Optimizer& optimizer, LinearLROptions options)
    : LRScheduler(optimizer), options_(options) {
  check<ValueError>(options.start_factor > 0 && options.start_factor <= 1,
                    "LinearLR: option start_factor is {}, must lie in (0, 1]",
                    options.start_factor);
  check<ValueError>(options.end_factor >= 0 && options.end_factor <= 1,
                    "LinearLR: option end_factor is {}, must lie in [0, 1]", options.end_factor);
  check<ValueError>(options.total_iters > 0, "LinearLR: option total_iters is {}, must be positive",
                    options.total_iters);
  set(0);
}

double LinearLR::rate(std::size_t group, std::int64_t t) const {
  const double done = static_cast<double>(std::min(t, options_.total_iters)) /
                      static_cast<double>(options_.total_iters);
  return base_lr(group) *
         (options_.start_factor + (options_.end_factor - options_.start_factor) * done);
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  check<ValueError>(factor_ != nullptr, "LambdaLR: the function is empty");
  set(0);
}

double LambdaLR::rate(std::size_t group, std::int64_t t) const {
  return base_lr(group) * factor_(t);
}

// --- One cycle -----------------------------------------------------------------------------------

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : LRScheduler(optimizer), options_(std::move(options)) {
  OneCycleLROptions& o = options_;
  if (o.total_steps == 0) {
    check<ValueError>(!__builtin_mul_overflow(o.epochs, o.steps_per_epoch, &o.total_steps),
                      "OneCycleLR: {} epochs of {} steps are more than 2^63 steps", o.epochs,
                      o.steps_per_epoch);
  }
  check<ValueError>(o.total_steps > 0,
                    "OneCycleLR: set total_steps, or epochs and steps_per_epoch, to positive "
                    "numbers; got {}, {} and {}",
                    o.total_steps, o.epochs, o.steps_per_epoch);
  check<ValueError>(o.pct_start >= 0 && o.pct_start <= 1,
                    "OneCycleLR: option pct_start is {}, must lie in [0, 1]", o.pct_start);
  check<ValueError>(o.anneal_strategy == "cos" || o.anneal_strategy == "linear",
                    "OneCycleLR: option anneal_strategy is \"{}\"; use \"cos\" or \"linear\"",
                    o.anneal_strategy);
  check_positive(o.div_factor, "OneCycleLR", "div_factor");
  check_positive(o.final_div_factor, "OneCycleLR", "final_div_factor");
  check_not_negative(o.base_momentum, "OneCycleLR", "base_momentum");
  check_not_negative(o.max_momentum, "OneCycleLR", "max_momentum");
  if (o.max_lr.size() == 1) o.max_lr.resize(group_count(), o.max_lr[0]);
  check<ValueError>(o.max_lr.size() == group_count(),
                    "OneCycleLR: option max_lr has {} entries for {} parameter groups",
                    o.max_lr.size(), group_count());
  for (const double max_lr : o.max_lr) check_not_negative(max_lr, "OneCycleLR", "max_lr");
  if (o.cycle_momentum) check_momenta();
  const auto total = static_cast<double>(o.total_steps);
  const double low = 1 / o.div_factor, lowest = low / o.final_div_factor;
  const double top = o.pct_start * total - 1;
  if (o.three_phase) {
    phases_ = {{top, low, 1, true},
               {2 * o.pct_start * total - 2, 1, low, false},
               {total - 1, low, lowest, false}};
  } else {
    phases_ = {{top, low, 1, true}, {total - 1, 1, lowest, false}};
  }
  begin();
}

/// Both ends, so that the optimizer refuses them now and not after many steps.
void OneCycleLR::check_momenta() const {
  for (std::size_t g = 0; g < group_count(); ++g) {
    const double present = optimizer().momentum(g);
    try {
      optimizer().set_momentum(g, options_.base_momentum);
      optimizer().set_momentum(g, options_.max_momentum);
    } catch (const Error&) {
      optimizer().set_momentum(g, present);
      throw;
    }
    optimizer().set_momentum(g, present);
  }
}

OneCycleLR::Place OneCycleLR::locate(std::int64_t t) const {
  check<ValueError>(t <= options_.total_steps,
                    "OneCycleLR: step {} of a schedule for total_steps = {}; make it longer", t,
                    options_.total_steps);
  const auto position = static_cast<double>(t);
  double begin = 0;
  for (const Phase& phase : phases_) {
    if (position <= phase.end || &phase == &phases_.back()) {
      // A phase of no length has been passed already; so has the last one after the last step.
      const double length = phase.end - begin;
      return {&phase, length <= 0 ? 1 : std::min((position - begin) / length, 1.0)};
    }
    begin = phase.end;
  }
  return {};
}

double OneCycleLR::anneal(double from, double to, double fraction) const {
  if (options_.anneal_strategy == "linear") return (to - from) * fraction + from;
  return to + (from - to) / 2 * (std::cos(M_PI * fraction) + 1);
}

double OneCycleLR::rate(std::size_t group, std::int64_t t) const {
  const auto [phase, fraction] = locate(t);
  const double top = options_.max_lr[group];
  return anneal(top * phase->lr_from, top * phase->lr_to, fraction);
}

void OneCycleLR::adjust(std::int64_t t) const {
  if (!options_.cycle_momentum) return;
  const auto [phase, fraction] = locate(t);
  const double high = options_.max_momentum, low = options_.base_momentum;
  // The momentum falls while the rate rises and rises while it falls; a third phase keeps it.
  const bool third = phase - phases_.data() == 2;
  const double momentum = third           ? high
                          : phase->rising ? anneal(high, low, fraction)
                                          : anneal(low, high, fraction);
  for (std::size_t g = 0; g < group_count(); ++g) optimizer().set_momentum(g, momentum);
}

// --- Sequence ------------------------------------------------------------------------------------

void SequentialLR::check_parts() const {
  check<ValueError>(!parts_.empty() && milestones_.size() + 1 == parts_.size(),
                    "SequentialLR: {} schedules need {} milestones, got {}", parts_.size(),
                    parts_.empty() ? 0 : parts_.size() - 1, milestones_.size());
  check<ValueError>(std::is_sorted(milestones_.begin(), milestones_.end()),
                    "SequentialLR: the milestones are not in ascending order");
  check_milestones(milestones_, "SequentialLR");
  for (const auto& part : parts_) {
    check<ValueError>(&part().optimizer() == &optimizer(),
                      "SequentialLR: a schedule belongs to another optimizer");
  }
}

std::pair<const LRScheduler*, std::int64_t> SequentialLR::part(std::int64_t t) const {
  const auto passed =
      std::upper_bound(milestones_.begin(), milestones_.end(), t) - milestones_.begin();
  return {&parts_[static_cast<std::size_t>(passed)](),
          passed == 0 ? t : t - milestones_[static_cast<std::size_t>(passed) - 1]};
}

double SequentialLR::rate(std::size_t group, std::int64_t t) const {
  const auto [schedule, own] = part(t);
  return schedule->rate(group, own);
}

double SequentialLR::floor(std::int64_t t) const {
  const auto [schedule, own] = part(t);
  return schedule->floor(own);
}

void SequentialLR::adjust(std::int64_t t) const {
  const auto [schedule, own] = part(t);
  schedule->adjust(own);
}

void SequentialLR::set_base_lrs(const std::vector<double>& base_lrs) {
  LRScheduler::set_base_lrs(base_lrs);
  for (const auto& part : parts_) part().set_base_lrs(base_lrs);
}

// --- Plateau -------------------------------------------------------------------------------------

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : optimizer_(&optimizer), options_(std::move(options)) {
  const char* name = "ReduceLROnPlateau";
  check<ValueError>(options_.factor > 0 && options_.factor < 1,
                    "{}: option factor is {}, must lie between 0 and 1", name, options_.factor);
  check_not_negative(static_cast<double>(options_.patience), name, "patience");
  check_not_negative(static_cast<double>(options_.cooldown), name, "cooldown");
  check_not_negative(options_.min_lr, name, "min_lr");
  check_not_negative(options_.eps, name, "eps");
  check<ValueError>(std::isfinite(options_.threshold), "{}: option threshold is {}, must be finite",
                    name, options_.threshold);
  check<ValueError>(options_.mode == "min" || options_.mode == "max",
                    "ReduceLROnPlateau: option mode is \"{}\"; use \"min\" or \"max\"",
                    options_.mode);
  check<ValueError>(options_.threshold_mode == "rel" || options_.threshold_mode == "abs",
                    "ReduceLROnPlateau: option threshold_mode is \"{}\"; use \"rel\" or \"abs\"",
                    options_.threshold_mode);
  best_ = options_.mode == "min" ? HUGE_VAL : -HUGE_VAL;
}

bool ReduceLROnPlateau::improves(double metric) const {
  const bool relative = options_.threshold_mode == "rel";
  if (options_.mode == "min") {
    return metric < (relative ? best_ * (1 - options_.threshold) : best_ - options_.threshold);
  }
  return metric > (relative ? best_ * (1 + options_.threshold) : best_ + options_.threshold);
}

void ReduceLROnPlateau::step(double metric) {
  ++position_;
  if (improves(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= options_.patience) return;
  for (std::size_t g = 0; g < optimizer_->group_count(); ++g) {
    const double old_lr = optimizer_->lr(g);
    const double new_lr = std::max(old_lr * options_.factor, options_.min_lr);
    if (old_lr - new_lr > options_.eps) optimizer_->set_lr(g, new_lr);
  }
  cooldown_left_ = options_.cooldown;
  bad_epochs_ = 0;
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const { return rates_of(*optimizer_); }

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict state;
  state.set("best", best_);
  state.set("num_bad_epochs", bad_epochs_);
  state.set("cooldown_counter", cooldown_left_);
  state.set("last_epoch", position_);
  return state;
}

void ReduceLROnPlateau::load_state_dict(const StateDict& state) {
  const double best = state.number("best");
  const std::int64_t bad_epochs = state.integer("num_bad_epochs");
  const std::int64_t cooldown = state.integer("cooldown_counter");
  const std::int64_t position = state.integer("last_epoch");
  check<ValueError>(bad_epochs >= 0 && cooldown >= 0 && position >= 0,
                    "ReduceLROnPlateau: the state counts {} bad epochs, {} of cooldown and {} in "
                    "all; none may be negative",
                    bad_epochs, cooldown, position);
  best_ = best;
  bad_epochs_ = bad_epochs;
  cooldown_left_ = cooldown;
  position_ = position;
}

}  // namespace facula::optim
