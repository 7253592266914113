#include <facula/optim/optimizer.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include <facula/autograd.h>

#include "autograd/engine.h"
#include "base/check.h"
#include "optim/check_options.h"

namespace facula::optim {

Optimizer::~Optimizer() = default;

std::size_t Optimizer::checked(std::size_t group) const {
  check<IndexError>(group < groups_.size(), "{}: there is no parameter group {}, it has {}", name_,
                    group, groups_.size());
  return group;
}

void Optimizer::add_parameters(const std::vector<Tensor>& params) {
  check<ValueError>(
      !params.empty(),
      "{}: the list of parameters is empty; pass module.parameters(), and see that the "
      "module registers some and that not all are left out as frozen",
      name_);
  Group group;
  for (const Tensor& param : params) {
    check<ValueError>(param.defined(), "{}: parameter {} is an undefined tensor", name_,
                      group.slots.size());
    check<ValueError>(param.is_leaf(),
                      "{}: parameter {} of size {} is the result of a computation; only leaves can "
                      "be trained, make it one with detach().requires_grad_()",
                      name_, group.slots.size(), param.sizes());
    check<DTypeError>(kFloatingTypes.contains(param.dtype()),
                      "{}: parameter {} is {}; only float32 and float64 are trained", name_,
                      group.slots.size(), facula::name_of(param.dtype()));
    auto same = [&](const Slot& slot) { return slot.param.is_same(param); };
    bool known = std::any_of(group.slots.begin(), group.slots.end(), same);
    for (const Group& other : groups_) {
      known |= std::any_of(other.slots.begin(), other.slots.end(), same);
    }
    check<ValueError>(!known, "{}: parameter {} of size {} was added twice", name_,
                      group.slots.size(), param.sizes());
    group.slots.push_back({param, 0, {}});
  }
  groups_.push_back(std::move(group));
}

std::vector<Tensor> Optimizer::parameters(std::size_t group) const {
  std::vector<Tensor> params;
  for (const Slot& slot : groups_[checked(group)].slots) params.push_back(slot.param);
  return params;
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> params;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.slots) params.push_back(slot.param);
  }
  return params;
}

// --- Rates ---------------------------------------------------------------------------------------

double Optimizer::lr(std::size_t group) const {
  return const_cast<Optimizer*>(this)->lr_of(checked(group));
}

void Optimizer::set_lr(std::size_t group, double lr) {
  check<ValueError>(lr >= 0 && std::isfinite(lr), "{}: the learning rate {} is not a number >= 0",
                    name_, lr);
  lr_of(checked(group)) = lr;
}

double Optimizer::momentum(std::size_t group) const { return momentum_of(checked(group)); }

void Optimizer::set_momentum(std::size_t group, double momentum) {
  check<ValueError>(momentum >= 0 && std::isfinite(momentum),
                    "{}: the momentum {} is not a number >= 0", name_, momentum);
  change_momentum(checked(group), momentum);
}

double Optimizer::initial_lr(std::size_t group) {
  double& initial = groups_[checked(group)].initial_lr;
  if (initial < 0) initial = lr_of(group);
  return initial;
}

// --- Stepping ------------------------------------------------------------------------------------

void Optimizer::zero_grad(bool set_to_none) {
  const NoGradGuard no_grad;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.slots) autograd::reset_gradient(slot.param, set_to_none);
  }
}

namespace {

/// The tensor itself, or its elements in the memory order, dtype and device of `param`. Gradients
/// of convolutions, or a model converted by to() after some steps, make the difference.
Tensor as_param(const Tensor& param, const Tensor& tensor) {
  if (tensor.strides() == param.strides() && tensor.dtype() == param.dtype() &&
      tensor.device() == param.device()) {
    return tensor;
  }
  Tensor copy = empty_like(param);
  copy.copy_(tensor.to(param.device()));
  return copy;
}

}  // namespace

void Optimizer::step() {
  const NoGradGuard no_grad;
  for (std::size_t group = 0; group < groups_.size(); ++group) step_group(group);
}

void Optimizer::step_group(std::size_t index) {
  Group& group = groups_[index];
  const std::vector<StateTensor> wanted = state_tensors(index);
  // Usually all parameters have taken the same number of steps, and all or none have state, so that
  // there is one batch. The others wait for the next round.
  std::vector<Slot*> waiting;
  waiting.reserve(group.slots.size());
  for (Slot& slot : group.slots) waiting.push_back(&slot);
  std::vector<Slot*> later, stepping;
  while (!waiting.empty()) {
    clear_batch();  // the last one may have failed
    stepping.clear();
    stepping.reserve(waiting.size());
    for (Slot* slot : waiting) {
      const Tensor grad = slot->param.grad();
      if (!grad.defined()) continue;
      // Not that of the first step: SGD keeps a buffer only while it has momentum.
      const bool begins = wanted[0].used && !slot->state[0].defined();
      if (batch_.steps == 0) {
        batch_.steps = slot->steps + 1;
        batch_.begins = begins;
      }
      if (slot->steps + 1 != batch_.steps || begins != batch_.begins) {
        later.push_back(slot);
        continue;
      }
      stepping.push_back(slot);
      batch_.params.push_back(slot->param);
      batch_.grads.push_back(as_param(slot->param, grad));
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        if (!wanted[k].used) continue;
        const Tensor& state = slot->state[k];
        batch_.state[k].push_back(state.defined() ? as_param(slot->param, state)
                                                  : zeros_like(slot->param));
      }
    }
    if (batch_.params.empty()) break;
    update(index, batch_);
    for (std::size_t i = 0; i < stepping.size(); ++i) {
      ++stepping[i]->steps;
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        if (wanted[k].used) stepping[i]->state[k] = batch_.state[k][i];
      }
    }
    clear_batch();
    waiting = std::exchange(later, {});
  }
}

void Optimizer::clear_batch() {
  batch_.steps = 0;
  batch_.params.clear();
  batch_.grads.clear();
  for (auto& state : batch_.state) state.clear();
}

// --- State ---------------------------------------------------------------------------------------

StateDict Optimizer::state_dict() const {
  StateDict state;
  state.set("type", name_);
  state.set("state", StateDict());
  std::size_t number = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<StateTensor> names = state_tensors(g);
    StateDict options = options_state(g);
    options.set("params", static_cast<std::int64_t>(groups_[g].slots.size()));
    if (groups_[g].initial_lr >= 0) options.set("initial_lr", groups_[g].initial_lr);
    state.set("param_groups." + std::to_string(g), std::move(options));
    for (const Slot& slot : groups_[g].slots) {
      const std::string prefix = "state." + std::to_string(number++);
      if (slot.steps == 0) continue;
      state.set(prefix + ".step", slot.steps);
      for (std::size_t k = 0; k < names.size(); ++k) {
        // Also where it is not used now: options may change back.
        if (slot.state[k].defined()) state.set(prefix + "." + names[k].name, slot.state[k]);
      }
    }
  }
  return state;
}

void Optimizer::load_state_dict(const StateDict& state) {
  const NoGradGuard no_grad;
  check<ValueError>(
      state.contains("type"),
      "{}: the state has no \"type\", so Optimizer::state_dict() did not make it; with "
      "that of another framework, set the options anew and begin without state",
      name_);
  check<ValueError>(state.text("type") == name_,
                    "{}: the state was saved by {}; load it into an optimizer of that kind", name_,
                    state.text("type"));
  const StateDict& saved_groups = state.dict("param_groups");
  check<ValueError>(saved_groups.entries().size() == groups_.size(),
                    "{}: the state has {} parameter groups, the optimizer {}", name_,
                    saved_groups.entries().size(), groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const StateDict& options = saved_groups.dict(std::to_string(g));
    const auto count = static_cast<std::int64_t>(groups_[g].slots.size());
    check<ValueError>(options.integer("params") == count,
                      "{}: group {} of the state has {} parameters, the optimizer's {}", name_, g,
                      options.integer("params"), count);
    load_options(g, options, false);
  }
  // Everything is read and checked before anything is changed.
  std::vector<Slot> loaded;
  std::vector<double> initial;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const StateDict& options = saved_groups.dict(std::to_string(g));
    initial.push_back(-1);
    if (options.contains("initial_lr")) {
      initial.back() = options.number("initial_lr");
      check_not_negative(initial.back(), name_, "initial_lr");
    }
    for (const Slot& own : groups_[g].slots) {
      loaded.push_back({own.param, 0, {}});
      const StateValue* entry = state.find("state." + std::to_string(loaded.size() - 1));
      if (!entry) continue;
      load_slot(loaded.back(), state.dict("state." + std::to_string(loaded.size() - 1)),
                loaded.size() - 1);
    }
  }
  if (state.contains("state")) {
    for (const auto& entry : state.dict("state").entries()) {
      std::size_t number = loaded.size();
      const std::string& name = entry.first;
      std::from_chars(name.data(), name.data() + name.size(), number);
      check<ValueError>(number < loaded.size(),
                        "{}: the state has an entry \"{}\" for a parameter, the optimizer {} "
                        "parameters; it belongs to other ones",
                        name_, name, loaded.size());
    }
  }
  std::size_t next = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    load_options(g, saved_groups.dict(std::to_string(g)), true);
    groups_[g].initial_lr = initial[g];
    for (Slot& own : groups_[g].slots) own = std::move(loaded[next++]);
  }
}

void Optimizer::load_slot(Slot& slot, const StateDict& saved, std::size_t number) const {
  slot.steps = saved.integer("step");
  check<ValueError>(slot.steps > 0, "{}: the step count {} of parameter {} must be positive", name_,
                    slot.steps, number);
  const std::vector<StateTensor> names = state_tensors(0);
  for (std::size_t k = 0; k < names.size(); ++k) {
    const bool there = saved.contains(names[k].name);
    check<ValueError>(there || !names[k].always,
                      "{}: the state of parameter {} lacks \"{}\"; it is not whole", name_, number,
                      names[k].name);
    if (!there) continue;
    const Tensor& tensor = saved.tensor(names[k].name);
    check<ValueError>(tensor.defined() && tensor.sizes() == slot.param.sizes(),
                      "{}: \"{}\" of parameter {} has size {}, the parameter {}", name_,
                      names[k].name, number, tensor.defined() ? tensor.sizes().str() : "none",
                      slot.param.sizes().str());
    slot.state[k] = empty_like(slot.param);
    slot.state[k].copy_(tensor.to(slot.param.device()));
  }
}

}  // namespace facula::optim
