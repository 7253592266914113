// Optimizers: they change parameters by their gradients. Formulas and defaults are PyTorch's.
//
//   optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
//   optimizer.zero_grad();
//   loss.backward();
//   optimizer.step();
//
// Parameters with options of their own are groups of their own:
//
//   optim::AdamW optimizer({{backbone, {.lr = 1e-5}}, {head, {.lr = 1e-3}}});
//
// Options may change between steps:
//
//   optim::AdamWOptions later{.lr = 1e-4, .weight_decay = 0};
//   optimizer.set_options(1, later);
//
// After model.to(dtype), the next step goes on in the new dtype, its state converted along. A step
// reads and writes every parameter once, in one parallel pass; parameters without a gradient
// are left alone. Results do not depend on the number of threads. Subnormal numbers (below 1.2e-38
// in float32) count as 0 there, so that moments of elements without gradients end at 0; in Adam
// where eps, as usual, hides them: from 2e-12 / sqrt(1 - beta2) on.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <facula/state_dict.h>
#include <facula/tensor.h>

namespace facula::optim {

/// What all optimizers have in common, and what schedulers and training loops need of one.
class FACULA_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates all parameters that have a gradient.
  void step();
  /// Forgets the gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);

  std::size_t group_count() const { return groups_.size(); }
  /// The parameters of one group, or of all. Throws IndexError for a group that does not exist.
  std::vector<Tensor> parameters(std::size_t group) const;
  std::vector<Tensor> parameters() const;

  double lr(std::size_t group = 0) const;
  /// Throws ValueError for a rate that is negative or not finite.
  void set_lr(std::size_t group, double lr);
  /// The momentum of SGD, the first beta of Adam. Throws ValueError for one that a new optimizer
  /// would not take.
  double momentum(std::size_t group = 0) const;
  void set_momentum(std::size_t group, double momentum);
  /// The rate that schedules start from: lr(group) when the first one was attached.
  double initial_lr(std::size_t group);

  /// {"state": {"0": {...}}, "param_groups": {"0": {...}}}; parameters are numbered through all
  /// groups. The tensors are shared with the optimizer.
  StateDict state_dict() const;
  /// Restores state and options, copying the tensors. Throws ValueError, changing nothing, if the
  /// state belongs to other parameters or another kind of optimizer.
  void load_state_dict(const StateDict& state);

 protected:
  /// A tensor that the optimizer keeps for every parameter.
  struct StateTensor {
    const char* name;
    bool used;
    bool always = false;  ///< every parameter has it from its first step on
  };
  static constexpr int kMaxState = 3;

  struct Slot {
    Tensor param;
    /// Steps in which this parameter had a gradient.
    std::int64_t steps = 0;
    Tensor state[kMaxState];
  };
  struct Group {
    std::vector<Slot> slots;
    double initial_lr = -1;
  };
  /// Parameters that take the same step together: what the step's op gets.
  struct Batch {
    std::int64_t steps;  ///< this step included
    bool begins;         ///< whether the state is new, and zero
    std::vector<Tensor> params, grads, state[kMaxState];
  };

  explicit Optimizer(const char* name) : name_(name) {}
  /// For messages.
  const char* name() const { return name_; }

  /// Adds a group after the subclass has added its options. Throws ValueError for an empty list and
  /// for parameters that are no leaves, not floating or already there.
  void add_parameters(const std::vector<Tensor>& params);
  std::size_t checked(std::size_t group) const;

  virtual double& lr_of(std::size_t group) = 0;
  virtual double momentum_of(std::size_t group) const = 0;
  /// Throws ValueError, and changes nothing, where a new optimizer would not take it.
  virtual void change_momentum(std::size_t group, double momentum) = 0;
  /// The state tensors of a group, at most kMaxState.
  virtual std::vector<StateTensor> state_tensors(std::size_t group) const = 0;
  virtual void update(std::size_t group, const Batch& batch) = 0;
  virtual StateDict options_state(std::size_t group) const = 0;
  /// Reads what options_state wrote. With `apply` false, only checks it.
  virtual void load_options(std::size_t group, const StateDict& options, bool apply) = 0;

 private:
  void step_group(std::size_t group);
  void clear_batch();
  void load_slot(Slot& slot, const StateDict& saved, std::size_t number) const;

  const char* name_;
  std::vector<Group> groups_;
  Batch batch_;
};

/// Parameters with options of their own.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params;
  Options options = {};
};

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

/// Stochastic gradient descent (torch.optim.SGD).
class FACULA_API SGD : public Optimizer {
 public:
  explicit SGD(const std::vector<Tensor>& params, SGDOptions options = {});
  explicit SGD(const std::vector<ParamGroup<SGDOptions>>& groups);
  void add_param_group(const std::vector<Tensor>& params, SGDOptions options);
  const SGDOptions& options(std::size_t group = 0) const { return options_[checked(group)]; }
  /// Replaces them, as those of a new optimizer are checked; momentum buffers stay.
  void set_options(std::size_t group, SGDOptions options);

 protected:
  double& lr_of(std::size_t group) override { return options_[group].lr; }
  double momentum_of(std::size_t group) const override { return options_[group].momentum; }
  void change_momentum(std::size_t group, double momentum) override;
  std::vector<StateTensor> state_tensors(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) override;
  StateDict options_state(std::size_t group) const override;
  void load_options(std::size_t group, const StateDict& options, bool apply) override;

 private:
  std::vector<SGDOptions> options_;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
};

/// Adam (torch.optim.Adam): weight decay is added to the gradient.
class FACULA_API Adam : public Optimizer {
 public:
  explicit Adam(const std::vector<Tensor>& params, AdamOptions options = {});
  explicit Adam(const std::vector<ParamGroup<AdamOptions>>& groups);
  void add_param_group(const std::vector<Tensor>& params, AdamOptions options);
  const AdamOptions& options(std::size_t group = 0) const { return options_[checked(group)]; }
  /// Replaces them, as those of a new optimizer are checked; the moments stay.
  void set_options(std::size_t group, AdamOptions options);

 protected:
  Adam(const char* name, bool decoupled) : Optimizer(name), decoupled_(decoupled) {}

  double& lr_of(std::size_t group) override { return options_[group].lr; }
  double momentum_of(std::size_t group) const override { return options_[group].beta1; }
  void change_momentum(std::size_t group, double momentum) override;
  std::vector<StateTensor> state_tensors(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) override;
  StateDict options_state(std::size_t group) const override;
  void load_options(std::size_t group, const StateDict& options, bool apply) override;

 private:
  std::vector<AdamOptions> options_;
  bool decoupled_ = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;

  operator AdamOptions() const { return {lr, beta1, beta2, eps, weight_decay, amsgrad, maximize}; }
};

/// AdamW (torch.optim.AdamW): weight decay shrinks the parameter directly.
class FACULA_API AdamW : public Adam {
 public:
  explicit AdamW(const std::vector<Tensor>& params, AdamWOptions options = {});
  explicit AdamW(const std::vector<ParamGroup<AdamWOptions>>& groups);
  void add_param_group(const std::vector<Tensor>& params, AdamWOptions options) {
    Adam::add_param_group(params, options);
  }
  AdamWOptions options(std::size_t group = 0) const {
    const AdamOptions& o = Adam::options(group);
    return {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.amsgrad, o.maximize};
  }
  void set_options(std::size_t group, AdamWOptions options) { Adam::set_options(group, options); }
};

}  // namespace facula::optim
