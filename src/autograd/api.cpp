// The public face of automatic differentiation.
#include <facula/autograd.h>

#include "autograd/engine.h"
#include "autograd/node.h"
#include "base/check.h"
#include "core/promotion.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"
#include "runtime/recorded_write.h"

namespace facula {

using autograd::Accumulator;
using runtime::restore_modes;
using runtime::tl_mode;

// --- Modes ---------------------------------------------------------------------------------------

NoGradGuard::NoGradGuard() : saved_(tl_mode) { tl_mode |= runtime::kNoGrad; }
NoGradGuard::~NoGradGuard() { restore_modes(runtime::kNoGrad, saved_); }

AutoGradMode::AutoGradMode(bool enabled) : saved_(tl_mode) {
  const bool allowed = enabled && !(tl_mode & runtime::kInference);
  tl_mode = allowed ? tl_mode & ~runtime::kNoGrad : tl_mode | runtime::kNoGrad;
}
AutoGradMode::~AutoGradMode() { restore_modes(runtime::kNoGrad, saved_); }
bool AutoGradMode::is_enabled() { return !(tl_mode & runtime::kNoGrad); }

InferenceMode::InferenceMode() : saved_(tl_mode) {
  tl_mode |= runtime::kInference | runtime::kNoGrad;
}
InferenceMode::~InferenceMode() { restore_modes(runtime::kInference | runtime::kNoGrad, saved_); }

// --- Tensor --------------------------------------------------------------------------------------

bool Tensor::requires_grad() const {
  if (!impl_) return false;
  if (has_stale_history(*impl_)) [[unlikely]]
    runtime::renew_history(*this);
  return impl_->requires_grad();
}

bool Tensor::is_leaf() const {
  return !requires_grad() || !impl_->node || impl_->has(TensorImpl::kIsLeafVariable);
}

const Tensor& Tensor::requires_grad_(bool requires_grad) const {
  check<ValueError>(defined(), "requires_grad_: the tensor is undefined; give it a value first");
  check<AutogradError>(is_leaf() || requires_grad,
                       "requires_grad_(false): the tensor is the result of {}; use detach()",
                       impl_->node ? impl_->node->name() : "");
  check<AutogradError>(!requires_grad || is_floating_point(),
                       "requires_grad_: only floating-point tensors have gradients, this one of "
                       "size {} is {}; convert it with to(kFloat32)",
                       sizes(), name_of(dtype()));
  check<AutogradError>(!requires_grad || !impl_->has(TensorImpl::kInferenceTensor),
                       "requires_grad_: the tensor was made in InferenceMode; clone() it outside");
  impl_->set(TensorImpl::kRequiresGrad, requires_grad);
  if (requires_grad)
    autograd::edge_of(*this);  // makes the accumulator before threads share the leaf
  return *this;
}

Tensor Tensor::grad() const {
  if (!impl_ || !impl_->node) return {};
  if (impl_->has(TensorImpl::kIsLeafVariable)) {
    const Accumulator& state = autograd::accumulator(*impl_->node);
    if (!state.gradient || state.empty) return {};
    __atomic_fetch_add(&state.gradient->references, 1, __ATOMIC_RELAXED);
    return Tensor::adopt(state.gradient);
  }
  const autograd::NodeExtras::Retained* retained = autograd::retained_of(*impl_);
  return retained ? retained->gradient : Tensor();
}

namespace {

/// Makes a gradient that took part in a recorded computation an ordinary tensor again.
void forget_history(const Tensor& gradient) {
  if (gradient.is_leaf()) return;
  autograd::drop_history(*gradient.impl());
  gradient.impl()->set(TensorImpl::kRequiresGrad, false);
}

}  // namespace

void Tensor::set_grad(const Tensor& grad) const {
  check<ValueError>(defined(), "set_grad: the tensor is undefined; give it a value first");
  autograd::NodeExtras::Retained* retained = is_leaf() ? nullptr : autograd::retained_of(*impl_);
  check<AutogradError>(is_leaf() || retained,
                       "set_grad: a tensor of size {} that is no leaf has a gradient only after "
                       "retain_grad()",
                       sizes());
  check<ShapeError>(!grad.defined() || grad.sizes() == sizes(),
                    "set_grad: a gradient of size {} for a tensor of size {}; pass one of the "
                    "tensor's size",
                    grad.defined() ? grad.sizes() : IntList(), sizes());
  const DType expected = gradient_dtype(dtype());
  check<DTypeError>(!grad.defined() || grad.dtype() == expected,
                    "set_grad: a {} gradient for a {} tensor of size {}, expected {}; convert it "
                    "with to()",
                    grad.defined() ? name_of(grad.dtype()) : "", name_of(dtype()), sizes(),
                    name_of(expected));
  check<DeviceError>(!grad.defined() || grad.device() == device(),
                     "set_grad: a gradient on {} for a tensor on {}; move it with to()",
                     grad.defined() ? grad.device() : kCPU, device());
  if (retained) {
    retained->gradient = grad;
    return;
  }
  if (!grad.defined() && !impl_->node) return;
  Accumulator& state = autograd::accumulator(*autograd::accumulator_of(*impl_));
  if (state.fixed_buffer && !grad.defined()) {
    forget_history(this->grad());
    state.empty = true;
    return;
  }
  Tensor replaced = Tensor::adopt(state.gradient);
  state.gradient = Tensor(grad).leak();
  state.fixed_buffer = false;
  state.empty = false;
}

void autograd::reset_gradient(const Tensor& leaf, bool set_to_none) {
  const Tensor gradient = leaf.grad();
  if (!gradient.defined()) return;
  if (set_to_none) return leaf.set_grad({});
  forget_history(gradient);
  gradient.detach().zero_();
}

void Tensor::retain_grad() const {
  check<AutogradError>(requires_grad(),
                       "retain_grad: the tensor does not require grad; call requires_grad_() on "
                       "what it is computed from, outside NoGradGuard");
  if (is_leaf() || autograd::retained_of(*impl_)) return;
  autograd::extras_of(*impl_->node).retained.push_back({impl_->output_index, Tensor()});
}

Tensor Tensor::detach() const {
  check<ValueError>(defined(), "detach: the tensor is undefined; give it a value first");
  Tensor detached = alias(*impl_);
  if (Storage* storage = impl_->storage) detached.impl()->family = storage->new_family();
  return detached;
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  autograd::backward({*this}, {gradient}, retain_graph, create_graph);
}

// --- Functions -----------------------------------------------------------------------------------

namespace autograd {
namespace {

/// The gradients to start from: those given, or 1 for outputs of one element.
std::vector<Tensor> initial_gradients(const std::vector<Tensor>& outputs,
                                      std::vector<Tensor> gradients, const char* function) {
  check<ValueError>(gradients.empty() || gradients.size() == outputs.size(),
                    "{}: {} gradients for {} outputs", function, gradients.size(), outputs.size());
  gradients.resize(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    if (output.defined()) runtime::check_view_is_current(output, function);
    check<AutogradError>(output.requires_grad(),
                         "{}: output {} does not require grad: it does not depend on a leaf with "
                         "requires_grad, or was computed under NoGradGuard",
                         function, i);
    if (!gradients[i].defined()) {
      check<AutogradError>(output.numel() == 1,
                           "{}: output {} of size {} has more than one element; pass its gradient, "
                           "or reduce it with sum() or mean()",
                           function, i, output.sizes());
      gradients[i] = ones_like(output.detach());
    }
    check<ShapeError>(gradients[i].sizes() == output.sizes(),
                      "{}: a gradient of size {} for an output of size {}; pass one of the "
                      "output's size",
                      function, gradients[i].sizes(), output.sizes());
    check<DTypeError>(gradients[i].dtype() == output.dtype() ||
                          gradients[i].dtype() == gradient_dtype(output.dtype()),
                      "{}: a {} gradient for a {} output of size {}; convert it with to()",
                      function, name_of(gradients[i].dtype()), name_of(output.dtype()),
                      output.sizes());
    check<DeviceError>(gradients[i].device() == output.device(),
                       "{}: a gradient on {} for an output on {}; move it with to()", function,
                       gradients[i].device(), output.device());
  }
  return gradients;
}

std::vector<Edge> edges_of(const std::vector<Tensor>& tensors) {
  std::vector<Edge> edges;
  edges.reserve(tensors.size());
  for (const Tensor& tensor : tensors) edges.push_back(edge_of(tensor));
  return edges;
}

}  // namespace

AnomalyMode::AnomalyMode() : saved_(tl_mode) { tl_mode |= runtime::kAnomaly; }
AnomalyMode::~AnomalyMode() { restore_modes(runtime::kAnomaly, saved_); }

void backward(const std::vector<Tensor>& outputs, std::vector<Tensor> gradients, bool retain_graph,
              bool create_graph) {
  gradients = initial_gradients(outputs, std::move(gradients), "backward");
  const std::vector<Edge> roots = edges_of(outputs);
  run_backward(roots, std::move(gradients),
               {.retain_graph = retain_graph || create_graph, .create_graph = create_graph});
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  std::vector<Tensor> gradients = initial_gradients(outputs, options.grad_outputs, "grad");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) runtime::check_view_is_current(inputs[i], "grad");
    check<AutogradError>(inputs[i].requires_grad(),
                         "grad: input {} does not require grad; call requires_grad_() on it before "
                         "the outputs are computed",
                         i);
  }
  const std::vector<Edge> roots = edges_of(outputs);
  const std::vector<Edge> targets = edges_of(inputs);
  std::vector<Tensor> results =
      run_backward(roots, std::move(gradients),
                   {.retain_graph = options.retain_graph || options.create_graph,
                    .create_graph = options.create_graph,
                    .targets = targets});
  for (std::size_t i = 0; i < results.size(); ++i) {
    check<AutogradError>(results[i].defined() || options.allow_unused,
                         "grad: the outputs do not depend on input {}; set allow_unused to get an "
                         "undefined gradient for it",
                         i);
  }
  return results;
}

}  // namespace autograd
}  // namespace facula
