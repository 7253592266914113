#include <facula/ops.h>
#include <facula/optim/optimizer.h>

#include "optim/check_options.h"

namespace facula::optim {
namespace {

SGDOptions checked_options(const SGDOptions& options) {
  check_not_negative(options.lr, "SGD", "lr");
  check_not_negative(options.momentum, "SGD", "momentum");
  check_not_negative(options.weight_decay, "SGD", "weight_decay");
  check<ValueError>(std::isfinite(options.dampening), "SGD: option dampening is {}, must be finite",
                    options.dampening);
  check<ValueError>(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                    "SGD: nesterov needs a momentum above 0 and a dampening of 0, got {} and {}",
                    options.momentum, options.dampening);
  return options;
}

}  // namespace

SGD::SGD(const std::vector<Tensor>& params, SGDOptions options) : Optimizer("SGD") {
  add_param_group(params, options);
}

SGD::SGD(const std::vector<ParamGroup<SGDOptions>>& groups) : Optimizer("SGD") {
  check<ValueError>(!groups.empty(), "SGD: the list of parameter groups is empty");
  for (const auto& group : groups) add_param_group(group.params, group.options);
}

void SGD::add_param_group(const std::vector<Tensor>& params, SGDOptions options) {
  checked_options(options);
  add_parameters(params);
  options_.push_back(options);
}

void SGD::set_options(std::size_t group, SGDOptions options) {
  options_[checked(group)] = checked_options(options);
}

void SGD::change_momentum(std::size_t group, double momentum) {
  SGDOptions options = options_[group];
  options.momentum = momentum;
  set_options(group, options);
}

std::vector<Optimizer::StateTensor> SGD::state_tensors(std::size_t group) const {
  return {{"momentum_buffer", options_[group].momentum != 0}};
}

void SGD::update(std::size_t group, const Batch& batch) {
  const SGDOptions& options = options_[group];
  facula::sgd_step_(batch.params, batch.grads, batch.state[0], tensor(options.lr, kFloat64),
                    tensor(options.momentum, kFloat64), options.dampening, options.weight_decay,
                    options.nesterov, options.maximize, batch.begins);
}

StateDict SGD::options_state(std::size_t group) const {
  const SGDOptions& options = options_[group];
  StateDict state;
  state.set("lr", options.lr);
  state.set("momentum", options.momentum);
  state.set("dampening", options.dampening);
  state.set("weight_decay", options.weight_decay);
  state.set("nesterov", options.nesterov);
  state.set("maximize", options.maximize);
  return state;
}

void SGD::load_options(std::size_t group, const StateDict& state, bool apply) {
  const SGDOptions loaded = checked_options({.lr = state.number("lr"),
                                             .momentum = state.number("momentum"),
                                             .dampening = state.number("dampening"),
                                             .weight_decay = state.number("weight_decay"),
                                             .nesterov = state.boolean("nesterov"),
                                             .maximize = state.boolean("maximize")});
  if (apply) options_[group] = loaded;
}

}  // namespace facula::optim
