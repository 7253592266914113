#include <facula/ops.h>
#include <facula/optim/optimizer.h>

#include "optim/check_options.h"

namespace facula::optim {
namespace {

/// `owner`: the optimizer that was asked for, in messages.
AdamOptions checked_options(const char* owner, const AdamOptions& options) {
  check_not_negative(options.lr, owner, "lr");
  check_not_negative(options.eps, owner, "eps");
  check<ValueError>(options.beta1 >= 0 && options.beta1 < 1,
                    "{}: option beta1 is {}, must lie in [0, 1)", owner, options.beta1);
  check<ValueError>(options.beta2 >= 0 && options.beta2 < 1,
                    "{}: option beta2 is {}, must lie in [0, 1)", owner, options.beta2);
  check_not_negative(options.weight_decay, owner, "weight_decay");
  return options;
}

}  // namespace

Adam::Adam(const std::vector<Tensor>& params, AdamOptions options) : Optimizer("Adam") {
  add_param_group(params, options);
}

Adam::Adam(const std::vector<ParamGroup<AdamOptions>>& groups) : Optimizer("Adam") {
  check<ValueError>(!groups.empty(), "Adam: the list of parameter groups is empty");
  for (const auto& group : groups) add_param_group(group.params, group.options);
}

AdamW::AdamW(const std::vector<Tensor>& params, AdamWOptions options) : Adam("AdamW", true) {
  add_param_group(params, options);
}

AdamW::AdamW(const std::vector<ParamGroup<AdamWOptions>>& groups) : Adam("AdamW", true) {
  check<ValueError>(!groups.empty(), "AdamW: the list of parameter groups is empty");
  for (const auto& group : groups) add_param_group(group.params, group.options);
}

void Adam::add_param_group(const std::vector<Tensor>& params, AdamOptions options) {
  checked_options(name(), options);
  add_parameters(params);
  options_.push_back(options);
}

void Adam::set_options(std::size_t group, AdamOptions options) {
  options_[checked(group)] = checked_options(name(), options);
}

void Adam::change_momentum(std::size_t group, double momentum) {
  AdamOptions options = options_[group];
  options.beta1 = momentum;
  set_options(group, options);
}

std::vector<Optimizer::StateTensor> Adam::state_tensors(std::size_t group) const {
  return {{"exp_avg", true, true},
          {"exp_avg_sq", true, true},
          {"max_exp_avg_sq", options_[group].amsgrad}};
}

void Adam::update(std::size_t group, const Batch& batch) {
  const AdamOptions& options = options_[group];
  facula::adam_step_(batch.params, batch.grads, batch.state[0], batch.state[1], batch.state[2],
                     tensor(options.lr, kFloat64), tensor(options.beta1, kFloat64),
                     tensor(static_cast<double>(batch.steps), kFloat64), options.beta2, options.eps,
                     options.weight_decay, decoupled_, options.amsgrad, options.maximize);
}

StateDict Adam::options_state(std::size_t group) const {
  const AdamOptions& options = options_[group];
  StateDict state;
  state.set("lr", options.lr);
  state.set("beta1", options.beta1);
  state.set("beta2", options.beta2);
  state.set("eps", options.eps);
  state.set("weight_decay", options.weight_decay);
  state.set("amsgrad", options.amsgrad);
  state.set("maximize", options.maximize);
  return state;
}

void Adam::load_options(std::size_t group, const StateDict& state, bool apply) {
  const AdamOptions loaded = checked_options(name(), {.lr = state.number("lr"),
                                                      .beta1 = state.number("beta1"),
                                                      .beta2 = state.number("beta2"),
                                                      .eps = state.number("eps"),
                                                      .weight_decay = state.number("weight_decay"),
                                                      .amsgrad = state.boolean("amsgrad"),
                                                      .maximize = state.boolean("maximize")});
  if (apply) options_[group] = loaded;
}

}  // namespace facula::optim
