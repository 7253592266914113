#include "runtime/fusion.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "ops/attrs/batch_norm_apply.h"
#include "ops/attrs/batch_norm_relu.h"
#include "ops/attrs/batch_norm_stats.h"
#include "ops/attrs/batch_norm_train.h"
#include "ops/attrs/channel_affine_relu.h"
#include "ops/attrs/conv2d.h"
#include "ops/attrs/conv2d_backward_input.h"
#include "ops/attrs/conv2d_backward_input_fused.h"
#include "ops/attrs/conv2d_fused.h"
#include "ops/attrs/hardtanh.h"
#include "ops/attrs/linear_fused.h"
#include "runtime/deferred.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"

namespace facula::runtime {

namespace {

bool normalizes(const Deferred& d) {
  return d.values.id == OpId::batch_norm_apply || d.values.id == OpId::channel_affine;
}

/// The call that normalizes, if the tensor's values wait for it; another thread may compute them at
/// any time, so that who asks twice gets two answers.
std::shared_ptr<const Deferred> waiting_normalization(const Tensor& tensor) {
  std::shared_ptr<const Deferred> d = deferral(tensor);
  return d && normalizes(*d) ? d : nullptr;
}

}  // namespace

bool waits_for_sum(const Tensor& tensor) {
  const std::shared_ptr<const Deferred> d = deferral(tensor);
  return d && (normalizes(*d) || d->values.id == OpId::conv2d_backward_input);
}

namespace {

Tensor first_result(OutputSpec spec, Deferred deferred) {
  Tensor result = defer(spec.sizes, spec.strides, spec.dtype, std::move(deferred));
  if (tl_mode & kInference) result.impl()->set(TensorImpl::kInferenceTensor);
  return result;
}

/// The statistics are needed at once, for the running ones; normalizing waits.
void defer_batch_norm(const Call& call, const OutputSpec& spec, Outputs& outputs) {
  const ops::batch_norm_stats_attrs stats_attrs = {call.attrs<ops::batch_norm_train_attrs>().eps};
  Outputs stats;
  {
    const ModeGuard no_grad(kNoGrad);
    dispatch(OpId::batch_norm_stats, {&call.in(0)}, &stats_attrs, stats);
  }
  KeptCall apply(OpId::batch_norm_apply,
                 {call.in(0), stats[0], stats[1], call.in(1), call.in(2), Tensor()},
                 ops::batch_norm_apply_attrs{.relu = false, .cap = {}});
  outputs.push_back(first_result(spec, {std::move(apply), KeptCall(call), {stats[0], stats[1]}}));
  for (Tensor& statistic : stats) outputs.push_back(std::move(statistic));
}

/// True if only one handle knows the tensor, and no hook waits for its gradient.
bool is_free(const Tensor& tensor) {
  return tensor.impl()->unique() && !(hooks.observed && hooks.observed(tensor));
}

/// What was recorded as the first result of `d`.
const KeptCall& origin_of(const Deferred& d) { return d.origin ? *d.origin : d.values; }

/// True if `result`, whose elements the call computes, has the history of that call and no other,
/// as a detached tensor or one that went through a custom function has, and the call would be
/// recorded for the same gradients today, of tensors that may be saved.
bool has_history_of(const KeptCall& call, const Tensor& result) {
  const auto of_inference = [](const Tensor& tensor) {
    return tensor.defined() && tensor.impl()->has(TensorImpl::kInferenceTensor);
  };
  if (of_inference(result) || std::ranges::any_of(call.inputs, of_inference)) return false;
  if (call.requiring_grad() != call.recorded) return false;
  if (call.recorded == 0) return !result.requires_grad();
  return result.requires_grad() && hooks.made_by(result, call.id);
}

/// What relu finds before it: normalized values and a residual, which may be undefined.
struct Normalized {
  std::shared_ptr<const Deferred> affine;
  Tensor residual;
  /// Nobody else holds the values before the sum.
  bool owned = true;
  /// The tape may hold one call in place of the parts.
  bool replaceable = true;

  explicit Normalized(const Tensor& input) {
    const std::shared_ptr<const Deferred> waiting = deferral(input);
    if (!waiting) return;
    const KeptCall& sum = waiting->values;
    if (normalizes(*waiting)) {
      affine = waiting;
      replaceable = has_history_of(origin_of(*affine), input);
      return;
    }
    if (sum.id != OpId::add) return;
    auto found = waiting_normalization(sum.inputs[0]);
    const bool first = found != nullptr;
    if (!first) found = waiting_normalization(sum.inputs[1]);
    const Tensor& normalized = sum.inputs[first ? 0 : 1];
    // It may have been read since. The layout of a sum may be that of the other operand.
    if (!found || normalized.strides() != input.strides()) return;
    affine = std::move(found);
    residual = sum.inputs[first ? 1 : 0];
    owned = is_free(normalized);
    replaceable = has_history_of(origin_of(*affine), normalized) && has_history_of(sum, input);
  }
};

/// The call that would compute `result`, if that waits and nobody but its reader asks for it, by a
/// view either.
std::shared_ptr<const Deferred> own_call(const Tensor& result) {
  std::shared_ptr<const Deferred> d = deferral(result);
  return d && is_free(result) && result.impl()->storage->unique() ? d : nullptr;
}

/// The same, if it is a convolution or linear layer.
std::shared_ptr<const Deferred> own_product(const Tensor& result) {
  std::shared_ptr<const Deferred> d = own_call(result);
  return d && (d->values.id == OpId::conv2d || d->values.id == OpId::linear) ? d : nullptr;
}

/// relu, or the like with an upper bound.
struct Relu {
  std::optional<double> cap;

  static std::optional<Relu> of(const Call& call) {
    if (call.op.id == OpId::relu) return Relu{};
    if (call.op.id != OpId::hardtanh) return {};
    const auto& a = call.attrs<ops::hardtanh_attrs>();
    if (a.min_val != 0 || !(a.max_val > 0)) return {};
    return Relu{a.max_val};
  }
};

/// The convolution and what follows it: an affine map, a sum, relu.
Tensor fused_convolution(const KeptCall& convolution, std::array<Tensor, 3> scale_shift_residual,
                         std::optional<Relu> relu) {
  std::vector<Tensor> inputs = convolution.inputs;
  for (Tensor& operand : scale_shift_residual) inputs.push_back(std::move(operand));
  const auto& a = convolution.attrs<ops::conv2d_attrs>();
  const ops::conv2d_fused_attrs attrs = {
      relu.has_value(), a.stride, a.padding, a.dilation, a.groups, relu ? relu->cap : std::nullopt};
  return KeptCall(OpId::conv2d_fused, std::move(inputs), attrs).run();
}

/// linear with the activation that follows it.
Tensor fused_linear(const KeptCall& linear, std::string_view activation,
                    std::optional<double> cap) {
  const ops::linear_fused_attrs attrs = {activation, cap};
  return KeptCall(OpId::linear_fused, linear.inputs, attrs).run();
}

/// The values of relu(normalized). `owned`: nobody else will ask for what is normalized.
Tensor fused_values(const Normalized& n, Relu relu, bool owned) {
  const KeptCall& affine = n.affine->values;
  if (owned && affine.id == OpId::channel_affine) {
    const auto product = own_product(affine.inputs[0]);
    if (product && product->values.id == OpId::conv2d) {
      return fused_convolution(product->values, {affine.inputs[1], affine.inputs[2], n.residual},
                               relu);
    }
  }
  KeptCall call = affine;
  if (call.id == OpId::batch_norm_apply) {
    call.inputs[5] = n.residual;
    const ops::batch_norm_apply_attrs attrs = {.relu = true, .cap = relu.cap};
    return KeptCall(call.id, std::move(call.inputs), attrs).run();
  }
  call.inputs.push_back(n.residual);
  const ops::channel_affine_relu_attrs attrs = {relu.cap};
  return KeptCall(OpId::channel_affine_relu, std::move(call.inputs), attrs).run();
}

void record_fused(const Normalized& n, Relu relu, Outputs& outputs) {
  const KeptCall& origin = origin_of(*n.affine);
  const Tensor* inputs[] = {&origin.inputs[0], &origin.inputs[1], &origin.inputs[2], &n.residual};
  if (origin.id == OpId::channel_affine) {
    const ops::channel_affine_relu_attrs attrs = {relu.cap};
    return hooks.record(Call{op(OpId::channel_affine_relu), inputs, 4, &attrs},
                        {outputs.data(), 1});
  }
  const ops::batch_norm_relu_attrs attrs = {origin.attrs<ops::batch_norm_train_attrs>().eps,
                                            relu.cap};
  Tensor results[] = {outputs[0], n.affine->other_results[0].detach(),
                      n.affine->other_results[1].detach()};
  hooks.record(Call{op(OpId::batch_norm_relu), inputs, 4, &attrs}, {results, 3});
}

/// True if elements of an operand may change unnoticed.
bool reads_exposed(const Call& call) {
  return std::ranges::any_of(std::span(call.inputs, call.count), [](const Tensor* input) {
    const TensorImpl* impl = input->impl();
    return impl && impl->storage && impl->storage->is_exposed();
  });
}

}  // namespace

bool defer_call(const Call& call, const SmallVector<OutputSpec, 4>& specs, Outputs& outputs) {
  const OpId id = call.op.id;
  switch (id) {
    case OpId::conv2d:
    case OpId::linear:
    case OpId::batch_norm_train:
    case OpId::channel_affine:
    case OpId::add: break;
    case OpId::conv2d_backward_input:
    case OpId::max_pool2d_backward:
      // Hooks may run, and write by address, before the result is read.
      if ((tl_mode & kNoGrad) && !reads_exposed(call)) break;
      return false;
    default: return false;
  }
  const Tensor& self = call.in(0);
  const OutputSpec& spec = specs[0];
  if (spec.dtype != kFloat32 || !self.device().is_cpu()) return false;
  if (!DeferralScope::active(checked_numel(spec.sizes, call.op.name))) return false;
  if (id == OpId::batch_norm_train) {
    defer_batch_norm(call, spec, outputs);
    return true;
  }
  if (id == OpId::add) {
    const Tensor& other = call.in(1);
    if (!waits_for_sum(self) && !waits_for_sum(other)) return false;
    if (reads_exposed(call)) return false;
    if (self.sizes() != other.sizes()) return false;
  }
  // Products of each other do not pile up.
  if (id == OpId::conv2d || id == OpId::linear || id == OpId::conv2d_backward_input) settle(self);
  outputs.push_back(first_result(spec, {KeptCall(call)}));
  return true;
}

namespace {

bool is_recording(const Call& call) { return !(tl_mode & kNoGrad) && call.in(0).requires_grad(); }

void hand_out(Tensor values, Outputs& outputs) {
  if (tl_mode & kInference) values.impl()->set(TensorImpl::kInferenceTensor);
  outputs.push_back(std::move(values));
}

/// relu of normalized values.
bool run_normalized(const Call& call, Relu relu, bool owned, Outputs& outputs) {
  const Tensor& input = call.in(0);
  const Normalized before(input);
  if (!before.affine) return false;
  const bool recording = is_recording(call);
  owned = owned && before.owned && is_free(input);
  if (recording && !(owned && before.replaceable)) return false;
  hand_out(fused_values(before, relu, owned), outputs);
  if (recording) record_fused(before, relu, outputs);
  return true;
}

/// A convolution or linear layer with what `call` makes of its result; undefined if it does not
/// take that along, or somebody else may ask for the result.
Tensor with_product(const Call& call, std::optional<Relu> relu) {
  // Only the gradient of relu does without the result; then both ops are recorded as they are.
  if (!relu && is_recording(call)) return {};
  const std::shared_ptr<const Deferred> waiting = own_product(call.in(0));
  if (!waiting) return {};
  const KeptCall& product = waiting->values;
  if (product.id == OpId::linear) {
    if (relu) return fused_linear(product, "relu", relu->cap);
    if (call.op.id == OpId::gelu_erf) return fused_linear(product, "gelu", {});
    if (call.op.id == OpId::gelu_tanh) return fused_linear(product, "gelu_tanh", {});
    return {};
  }
  if (relu) return fused_convolution(product, {}, relu);
  if (call.op.id != OpId::channel_affine) return {};
  return fused_convolution(product, {call.in(1), call.in(2)}, {});
}

/// The gradient of a convolution's input, or of what was pooled, with `residual` added, if that is
/// defined, where `rectified`, if that is defined, lets it pass.
Tensor fused_gradient(const KeptCall& gradient, const Tensor& residual, const Tensor& rectified) {
  if (gradient.id == OpId::max_pool2d_backward) {
    KeptCall call = gradient;
    call.inputs[2] = rectified;
    return call.run();
  }
  const auto& a = gradient.attrs<ops::conv2d_backward_input_attrs>();
  const ops::conv2d_backward_input_fused_attrs attrs = {a.input_size, a.stride, a.padding,
                                                        a.dilation, a.groups};
  return KeptCall(OpId::conv2d_backward_input_fused,
                  {gradient.inputs[0], gradient.inputs[1], residual, rectified}, attrs)
      .run();
}

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

/// a + b where `rectified`, if that is defined, lets it pass, if one of them is the gradient of a
/// convolution's input and waits; else undefined.
Tensor fused_sum(const Tensor& a, const Tensor& b, const Tensor& rectified) {
  if (!same_layout(a, b)) return {};
  const auto gradient = [](const Tensor& term) {
    std::shared_ptr<const Deferred> d = own_call(term);
    return d && d->values.id == OpId::conv2d_backward_input ? d : nullptr;
  };
  const auto of_a = gradient(a), of_b = gradient(b);
  if (!of_a && !of_b) return {};
  // Small weights, as those of shortcuts, are of convolutions that take nothing along.
  const auto weights = [](const auto& d) { return d ? d->values.inputs[1].numel() : -1; };
  return weights(of_a) > weights(of_b) ? fused_gradient(of_a->values, b, rectified)
                                       : fused_gradient(of_b->values, a, rectified);
}

/// relu_backward(grad, rectified) with what `grad` waits for; undefined if it does not take that
/// along.
Tensor fused_relu_backward(const Tensor& grad, const Tensor& rectified) {
  if (!same_layout(grad, rectified)) return {};
  const auto waiting = own_call(grad);
  if (!waiting) return {};
  const KeptCall& call = waiting->values;
  switch (call.id) {
    case OpId::add: return fused_sum(call.inputs[0], call.inputs[1], rectified);
    case OpId::max_pool2d_backward:
      if (call.inputs[2].defined()) return {};
      [[fallthrough]];
    case OpId::conv2d_backward_input: return fused_gradient(call, {}, rectified);
    default: return {};
  }
}

/// What gradients wait for, in a backward pass.
Tensor with_gradient(const Call& call) {
  if (!(tl_mode & kNoGrad)) return {};
  if (call.op.id == OpId::relu_backward) return fused_relu_backward(call.in(0), call.in(1));
  // Where it may wait, relu's gradient may yet take it along.
  return DeferralScope::exists() ? Tensor() : fused_sum(call.in(0), call.in(1), {});
}

}  // namespace

bool run_fused(const Call& call, bool owned, Outputs& outputs) {
  const OpId id = call.op.id;
  if (id == OpId::add || id == OpId::relu_backward) {
    Tensor values = owned ? with_gradient(call) : Tensor();
    if (!values.defined()) return false;
    hand_out(std::move(values), outputs);
    return true;
  }
  const std::optional<Relu> relu = Relu::of(call);
  if (!relu && id != OpId::channel_affine && id != OpId::gelu_erf && id != OpId::gelu_tanh)
    return false;
  if (!deferral(call.in(0))) return false;
  if (Tensor values = owned ? with_product(call, relu) : Tensor(); values.defined()) {
    hand_out(std::move(values), outputs);
    if (is_recording(call)) hooks.record(call, outputs);
    return true;
  }
  return relu && run_normalized(call, *relu, owned, outputs);
}

}  // namespace facula::runtime
