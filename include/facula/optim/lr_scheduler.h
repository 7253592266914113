// Learning-rate schedules: formulas, names and defaults are PyTorch's.
//
//   optim::SGD optimizer(model.parameters(), {.lr = 0.1});
//   optim::CosineAnnealingLR schedule(optimizer, {.T_max = epochs});
//   for (...) { ...; optimizer.step(); schedule.step(); }
//
// A schedule alone sets the rates of all groups by its formula, from the rates the optimizer had
// when its first schedule was made and from the number of steps. Where a rate is another than the
// formula's, because a second schedule, ReduceLROnPlateau or set_lr() changed it, step() scales it
// as the formula goes on, so that all of them act together, as PyTorch's chainable schedules do
// (here LambdaLR and OneCycleLR as well; where a formula's rate is below the least, not negative).
// A resumed run has the rates of an uninterrupted one, bit for bit. The optimizer must outlive its
// schedules.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <facula/optim/optimizer.h>

namespace facula::optim {

class FACULA_API LRScheduler {
 public:
  virtual ~LRScheduler();

  Optimizer& optimizer() const { return *optimizer_; }
  /// Advances by one epoch or one batch, whichever the schedule counts.
  void step() { set(position_ + 1); }
  /// Jumps to a position; 0 is the start. Throws ValueError for a negative one.
  void set(std::int64_t position);
  std::int64_t last_epoch() const { return position_; }
  /// The rates of all groups as they are now.
  std::vector<double> get_last_lr() const;

  virtual StateDict state_dict() const;
  /// Restores the position and the rates of all groups, or throws and changes nothing.
  virtual void load_state_dict(const StateDict& state);

 protected:
  explicit LRScheduler(Optimizer& optimizer);
  LRScheduler(const LRScheduler&) = default;
  LRScheduler& operator=(const LRScheduler&) = default;

  std::size_t group_count() const { return base_lrs_.size(); }
  double base_lr(std::size_t group) const { return base_lrs_[group]; }
  /// The formula: the rate of a group `t` steps after the start.
  virtual double rate(std::size_t group, std::int64_t t) const = 0;
  /// What the formula scales distances from.
  virtual double floor(std::int64_t) const { return 0; }
  /// Sets what else the schedule controls.
  virtual void adjust(std::int64_t) const {}
  /// Begins with the formula's rates, whatever they are now.
  void begin();
  /// Has the formula start from these rates of the groups.
  virtual void set_base_lrs(const std::vector<double>& base_lrs) { base_lrs_ = base_lrs; }

 private:
  friend class SequentialLR;

  /// The formula's rates of all groups from other base rates.
  std::vector<double> rates_from(const std::vector<double>& base_lrs, std::int64_t t);

  Optimizer* optimizer_;
  std::vector<double> base_lrs_;
  std::vector<double> formula_;  // what the formula said last
  std::int64_t position_ = 0;
};

struct StepLROptions {
  std::int64_t step_size = 0;
  double gamma = 0.1;
};
/// base * gamma^(t / step_size), the quotient rounded down.
class FACULA_API StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, StepLROptions options);

 protected:
  double rate(std::size_t group, std::int64_t t) const override;

 private:
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<std::int64_t> milestones = {};
  double gamma = 0.1;
};
/// Multiplies by gamma at every milestone.
class FACULA_API MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, MultiStepLROptions options);

 protected:
  double rate(std::size_t group, std::int64_t t) const override;

 private:
  MultiStepLROptions options_;
};

struct ExponentialLROptions {
  double gamma = 0;
};
/// base * gamma^t
class FACULA_API ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, ExponentialLROptions options);

 protected:
  double rate(std::size_t group, std::int64_t t) const override;

 private:
  ExponentialLROptions options_;
};

struct CosineAnnealingLROptions {
  std::int64_t T_max = 0;
  double eta_min = 0;
};
/// Half a cosine wave from base down to eta_min at T_max, and up again (Loshchilov & Hutter, 2017).
class FACULA_API CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, CosineAnnealingLROptions options);

 protected:
  double rate(std::size_t group, std::int64_t t) const override;
  double floor(std::int64_t) const override { return options_.eta_min; }

 private:
  CosineAnnealingLROptions options_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t total_iters = 5;
};
/// From start_factor * base to end_factor * base in total_iters steps: a warm-up.
class FACULA_API LinearLR : public LRScheduler {
 public:
  LinearLR(Optimizer& optimizer, LinearLROptions options = {});

 protected:
  double rate(std::size_t group, std::int64_t t) const override;

 private:
  LinearLROptions options_;
};

/// base * factor(t)
class FACULA_API LambdaLR : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t t)> factor);

 protected:
  double rate(std::size_t group, std::int64_t t) const override;

 private:
  std::function<double(std::int64_t)> factor_;
};

struct OneCycleLROptions {
  /// One rate, or one for each group.
  std::vector<double> max_lr = {};
  /// Batches of the whole training; unless given, epochs * steps_per_epoch.
  std::int64_t total_steps = 0;
  std::int64_t epochs = 0, steps_per_epoch = 0;
  double pct_start = 0.3;
  std::string anneal_strategy = "cos";  ///< or "linear"
  bool cycle_momentum = true;
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
};
/// From max_lr / div_factor up to max_lr and down to max_lr / div_factor / final_div_factor, with
/// the momentum going the other way (Smith & Topin, 2018). It begins at max_lr / div_factor
/// whatever the rate was. Step it after every batch: the least rate is that of the last one, and
/// stays after it; stepping more than total_steps times throws ValueError.
class FACULA_API OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);

 protected:
  double rate(std::size_t group, std::int64_t t) const override;
  void adjust(std::int64_t t) const override;

 private:
  struct Phase {
    double end;             // in steps
    double lr_from, lr_to;  // in units of max_lr
    bool rising;
  };
  struct Place {
    const Phase* phase;
    double fraction;
  };
  void check_momenta() const;
  Place locate(std::int64_t t) const;
  double anneal(double from, double to, double fraction) const;

  OneCycleLROptions options_;
  std::vector<Phase> phases_;
};

/// One schedule after the other: each begins at 0 where the milestone before it lies.
///   SequentialLR schedule(optimizer, {.milestones = {5}}, LinearLR(optimizer),
///                         CosineAnnealingLR(optimizer, {.T_max = 95}));
struct SequentialLROptions {
  std::vector<std::int64_t> milestones = {};
};
class FACULA_API SequentialLR : public LRScheduler {
 public:
  template <class... Schedules>
  SequentialLR(Optimizer& optimizer, SequentialLROptions options, Schedules... schedules)
      : LRScheduler(optimizer), milestones_(std::move(options.milestones)) {
    (parts_.push_back([part = std::move(schedules)]() mutable -> LRScheduler& { return part; }),
     ...);
    check_parts();
    begin();
  }

 protected:
  double rate(std::size_t group, std::int64_t t) const override;
  double floor(std::int64_t t) const override;
  void adjust(std::int64_t t) const override;
  void set_base_lrs(const std::vector<double>& base_lrs) override;

 private:
  /// The schedule in force after `t` steps, and how many of them are its own.
  std::pair<const LRScheduler*, std::int64_t> part(std::int64_t t) const;
  void check_parts() const;

  std::vector<std::int64_t> milestones_;
  std::vector<std::function<LRScheduler&()>> parts_;  // only their formulas are used
};

struct ReduceLROnPlateauOptions {
  std::string mode = "min";  ///< or "max": what improvement means
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";  ///< or "abs"
  std::int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;  ///< smaller changes are not made
};
/// Multiplies the rates by `factor` when a metric has not improved for more than `patience` epochs,
/// alone or together with other schedules.
class FACULA_API ReduceLROnPlateau {
 public:
  ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});

  /// Takes in the metric of one epoch. A NaN counts as no improvement.
  void step(double metric);
  Optimizer& optimizer() const { return *optimizer_; }
  std::int64_t last_epoch() const { return position_; }
  std::vector<double> get_last_lr() const;

  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  bool improves(double metric) const;

  Optimizer* optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t bad_epochs_ = 0, cooldown_left_ = 0, position_ = 0;
};

}  // namespace facula::optim
