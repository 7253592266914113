// Elementwise calls: the fast path, type promotion, reuse of dead operands, in-place variants.
#include "base/check.h"
#include "core/number_range.h"
#include "core/promotion.h"
#include "core/tensor_impl.h"
#include "ops/schema/checks.h"
#include "ops/schema/in_call.h"
#include "runtime/deferred.h"
#include "runtime/dispatch.h"
#include "runtime/fusion.h"
#include "runtime/mode.h"
#include "runtime/recorded_write.h"

namespace facula::runtime {
namespace {

constexpr int kMaxInputs = 4;
/// Larger problems take the general path, which splits them among threads.
constexpr std::int64_t kSerialLimit = 16384;

/// A call as the fast path sees it. No loop where the general path must decide: inputs that differ
/// in shape, dtype, layout or device, ops whose result has another dtype, slow modes.
struct FastCall {
  ElementwiseLoop loop = nullptr;
  const TensorImpl* shape = nullptr;  ///< the input whose shape the result has
  bool recording = false;
};

[[gnu::always_inline]] inline FastCall fast_call(OpId id,
                                                 std::initializer_list<const Tensor*> inputs) {
  const TensorImpl* shape = inputs.begin()[0]->impl();
  if (tl_mode & ~kFastModes || !shape) return {};
  const DType dtype = shape->dtype;
  std::uint8_t any = 0, all = TensorImpl::kIsContiguous;
  for (const Tensor* input : inputs) {
    const TensorImpl* impl = input->impl();
    if (!impl || !impl->load_data() || impl->dtype != dtype || !impl->device.is_cpu()) return {};
    const std::uint8_t flags = impl->load_flags();
    any |= flags;
    all &= flags;
    // Numbers and other 0-d tensors go along with any shape.
    if (shape->dim == 0) {
      shape = impl;
    } else if (impl->dim != 0 && !same_sizes(*impl, *shape)) {
      return {};
    }
  }
  if (!all || any & TensorImpl::kInferenceTensor || shape->numel > kSerialLimit) return {};
  if (any & TensorImpl::kIsView) {
    // The general path gives views of a tensor with another history by now the present one.
    for (const Tensor* input : inputs) {
      if (has_stale_history(*input->impl())) return {};
    }
  }
  return {direct_loops[static_cast<int>(id)][static_cast<int>(dtype)], shape,
          any & TensorImpl::kRequiresGrad && !(tl_mode & kNoGrad)};
}

bool any_requires_grad(std::initializer_list<const Tensor*> inputs) {
  std::uint8_t flags = 0;
  for (const Tensor* input : inputs) flags |= input->impl()->load_flags();
  return flags & TensorImpl::kRequiresGrad;
}

[[gnu::always_inline]] inline void run_loop(ElementwiseLoop loop, const TensorImpl& out,
                                            std::initializer_list<const Tensor*> inputs,
                                            const void* attrs) {
  char* pointers[kMaxInputs + 1];
  std::int64_t strides[kMaxInputs + 1];
  const auto size = static_cast<std::int64_t>(size_of(out.dtype));
  pointers[0] = reinterpret_cast<char*>(out.data);
  strides[0] = size;
  int place = 1;
  for (const Tensor* input : inputs) {
    const TensorImpl& impl = *input->impl();
    pointers[place] = reinterpret_cast<char*>(impl.data);
    strides[place++] = impl.dim == out.dim ? size : 0;
  }
  loop(attrs, out.numel, pointers, strides, Reach{});
}

void record(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs,
            Tensor& output) {
  const Op& definition = op(id);
  if (!definition.def.gradient->rule()) return;
  const Call call{definition, inputs.begin(), static_cast<std::uint32_t>(inputs.size()), attrs};
  hooks.record(call, {&output, 1});
}

// --- General path --------------------------------------------------------------------------------

/// Converts the inputs to the dtype the op computes in. Conversions are recorded, so gradients
/// return in each input's own dtype.
void promote(const Op& op, std::initializer_list<const Tensor*> inputs, const void* attrs,
             Tensor* converted) {
  const ElementwiseTraits& traits = *op.def.elementwise;
  for (const Tensor* input : inputs) {
    check<ValueError>(
        input->defined(),
        "{}: an input is an undefined tensor (a default-constructed handle); give it a "
        "value first",
        op.name);
  }
  for (int i = 0; i < traits.mask_inputs; ++i) {
    const DType dtype = inputs.begin()[i]->dtype();
    check<DTypeError>(dtype == kBool, "{}: the condition has dtype {}, expected bool", op.name,
                      name_of(dtype));
  }
  const std::span<const Tensor* const> operands(inputs.begin() + traits.mask_inputs, inputs.end());
  for (std::size_t i = 0; op.def.refuses_masks && i < operands.size(); ++i) {
    check<DTypeError>(operands[i]->dtype() != kBool,
                      "{}: operand {} of size {} is bool; combine masks with &, |, ^ (logical_xor) "
                      "and ~ (logical_not), or convert them with to(kFloat32)",
                      op.name, i, operands[i]->sizes());
  }
  DType dtype = promoted_dtype(operands);
  // A mask beside numbers alone, its bounds, becomes what they are.
  if (dtype == kBool && operands.size() == 1 && op.def.fractional) dtype = kInt64;
  const bool to_float = traits.to_float || (op.def.fractional && op.def.fractional(attrs));
  if (to_float && !facula::is_floating_point(dtype)) dtype = get_default_dtype();
  check<DTypeError>(traits.dtypes.contains(dtype),
                    "{}: inputs of dtype {} are not supported; {}convert them with to(kFloat32)",
                    op.name, name_of(dtype),
                    dtype == kBool ? "combine masks with &, |, ^ (logical_xor) and ~, or " : "");
  std::size_t i = 0;
  for (const Tensor* input : inputs) {
    const bool is_mask = i < traits.mask_inputs;
    converted[i++] = is_mask || input->dtype() == dtype ? *input : input->to(dtype);
  }
}

Tensor general(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs) {
  const Op& definition = op(id);
  Tensor converted[kMaxInputs];
  promote(definition, inputs, attrs, converted);
  const Tensor* pointers[kMaxInputs];
  for (std::size_t i = 0; i < inputs.size(); ++i) pointers[i] = &converted[i];
  Outputs outputs;
  dispatch(Call{definition, pointers, static_cast<std::uint32_t>(inputs.size()), attrs}, outputs);
  return std::move(outputs[0]);
}

/// True if an input shares memory with the first one without being the very same elements.
bool overlaps(std::initializer_list<const Tensor*> inputs) {
  const TensorImpl& self = *inputs.begin()[0]->impl();
  for (const Tensor* input : inputs) {
    const TensorImpl& other = *input->impl();
    const bool same_elements = other.data == self.data && other.size_list() == self.size_list() &&
                               other.stride_list() == self.stride_list();
    if (other.storage == self.storage && !same_elements) return true;
  }
  return false;
}

/// True if recording keeps input `index`, given which inputs need a gradient (bit i: input i).
bool saves_input(const Op& op, std::size_t index, std::uint32_t needed = ~0u) {
  for (const Save& save : op.def.saves) {
    if (!(save.when & needed)) continue;
    if (save.kind == Save::Kind::input && save.index == index) return true;
  }
  return false;
}

/// True if recording the call would keep the elements of `reused`, which the result overwrites.
bool needs_overwritten(const Op& op, const Tensor& reused,
                       std::initializer_list<const Tensor*> inputs) {
  std::uint32_t needed = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    needed |= std::uint32_t{inputs.begin()[i]->impl()->requires_grad()} << i;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs.begin()[i]->is_same(reused) && saves_input(op, i, needed)) return true;
  }
  return false;
}

/// True if the result has the shape, layout and dtype of `reused`.
bool result_fits(const Op& op, const TensorImpl& reused,
                 std::initializer_list<const Tensor*> inputs) {
  const ElementwiseTraits& traits = *op.def.elementwise;
  if (traits.predicate || traits.mask_inputs > 0 || !traits.dtypes.contains(reused.dtype) ||
      !reused.device.is_cpu() || !is_dense(reused)) {
    return false;
  }
  if (op.def.fractional && !facula::is_floating_point(reused.dtype)) return false;
  for (const Tensor* input : inputs) {
    const TensorImpl* impl = input->impl();
    if (!impl || impl->dtype != reused.dtype || impl->device != reused.device ||
        has_stale_history(*impl)) {
      return false;
    }
    const bool same_layout =
        same_sizes(*impl, reused) && impl->stride_list() == reused.stride_list();
    if (impl->dim != 0 && !same_layout) return false;
  }
  return true;
}

/// True if an operand is still to be computed, by the dispatcher or together with a later call.
bool any_waits(std::initializer_list<const Tensor*> inputs) {
  for (const Tensor* input : inputs) {
    if (!input->impl()->load_data()) return true;
  }
  return false;
}

/// The result of an in-place call, computed out of place from operands with the present history.
Tensor recorded_result(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs) {
  const Tensor& self = *inputs.begin()[0];
  const std::size_t count = inputs.size();
  const Tensor* p[kMaxInputs];
  bool keeps_values = false;
  for (std::size_t i = 0; i < count; ++i) {
    p[i] = inputs.begin()[i];
    keeps_values |= p[i]->is_same(self) && saves_input(op(id), i);
  }
  const Tensor before = hooks.before_write(self, keeps_values);
  for (std::size_t i = 0; i < count; ++i) {
    if (p[i]->is_same(self)) p[i] = &before;
  }
  switch (count) {
    case 1: return elementwise(id, {p[0]}, attrs);
    case 2: return elementwise(id, {p[0], p[1]}, attrs);
    case 3: return elementwise(id, {p[0], p[1], p[2]}, attrs);
    default: return elementwise(id, {p[0], p[1], p[2], p[3]}, attrs);
  }
}

OpId shortcut(OpId id, const Tensor& self, const Tensor& number) {
  const ShortcutRule rule = op(id).def.shortcut;
  if (!rule || !self.defined() || self.dtype() != number.dtype()) return id;
  return rule(number.item(), self.dtype());
}

/// The op that computes the call from its first input alone, or `id`: pow(x, 2) is square(x).
[[gnu::always_inline]] inline OpId shortcut(OpId id, std::initializer_list<const Tensor*> inputs) {
  if (inputs.size() != 2) return id;
  const TensorImpl* number = inputs.begin()[1]->impl();
  if (!number || !number->has(TensorImpl::kWrappedNumber)) return id;
  return shortcut(id, *inputs.begin()[0], *inputs.begin()[1]);
}

/// Drops the caller's handle, so that whoever gets `result` may find himself the only owner of what
/// it waits for.
Tensor given_up(Tensor& handle, Tensor result) {
  handle = Tensor();
  return result;
}

}  // namespace

Tensor elementwise(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs) {
  if (const OpId other = shortcut(id, inputs); other != id) {
    return elementwise(other, {inputs.begin()[0]}, nullptr);
  }
  const FastCall fast = fast_call(id, inputs);
  if (!fast.loop) [[unlikely]]
    return general(id, inputs, attrs);
  Tensor out = Tensor::adopt(new_contiguous_like(*fast.shape));
  run_loop(fast.loop, *out.impl(), inputs, attrs);
  if (fast.recording) record(id, inputs, attrs, out);
  return out;
}

Tensor elementwise_reusing(OpId id, Tensor& reused, std::initializer_list<const Tensor*> inputs,
                           const void* attrs) {
  if (const OpId other = shortcut(id, inputs); other != id) {
    return elementwise_reusing(other, reused, {inputs.begin()[0]}, nullptr);
  }
  TensorImpl* impl = reused.impl();
  if (impl && !impl->load_data() && deferral(reused)) [[unlikely]] {
    Outputs fused;
    const Call call{op(id), inputs.begin(), static_cast<std::uint32_t>(inputs.size()), attrs};
    if (run_fused(call, true, fused)) return given_up(reused, std::move(fused[0]));
    if (id == OpId::add && (waits_for_sum(call.in(0)) || waits_for_sum(call.in(1)))) {
      if (Tensor sum = elementwise(id, inputs, attrs); deferral(sum)) {
        return given_up(reused, std::move(sum));
      } else {
        return sum;
      }
    }
    settle(reused);
  }
  if (!impl || !is_dead(*impl) || tl_mode & ~kFastModes) return elementwise(id, inputs, attrs);
  const Op& definition = op(id);
  const FastCall fast = fast_call(id, inputs);
  const bool fits =
      fast.loop ? fast.shape->dim == impl->dim : result_fits(definition, *impl, inputs);
  if (!fits || (!fast.loop && any_waits(inputs))) return elementwise(id, inputs, attrs);
  const bool recording =
      !(tl_mode & kNoGrad) && any_requires_grad(inputs) && definition.def.gradient->rule();
  if (recording && needs_overwritten(definition, reused, inputs))
    return elementwise(id, inputs, attrs);
  const Call call{definition, inputs.begin(), static_cast<std::uint32_t>(inputs.size()), attrs};
  if (fast.loop) {
    run_loop(fast.loop, *impl, inputs, attrs);
  } else {
    implementations(id, DeviceType::cpu)[0].run(KernelArgs{call, &reused, 1});
  }
  if (recording) {
    hooks.record(call, {&reused, 1});
  } else if (impl->node) {
    autograd::release(std::exchange(impl->node, nullptr));
    impl->output_index = 0;
    impl->set(TensorImpl::kRequiresGrad, false);
  }
  // What the tensor was says nothing about the result; in InferenceMode, nothing is reused.
  if (impl->has(TensorImpl::kIsView)) end_view(*impl);
  impl->flags &= TensorImpl::kIsContiguous | TensorImpl::kRequiresGrad;
  return std::move(reused);
}

void elementwise_in_place(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs) {
  const Tensor& self = *inputs.begin()[0];
  check<ValueError>(self.defined(), "{}_: the tensor is undefined; give it a value first",
                    op(id).name);
  check_in_place(self, op(id).name, "_");
  if (const OpId other = shortcut(id, inputs); other != id) {
    return elementwise_in_place(other, {&self}, nullptr);
  }
  bool defined = true;
  for (const Tensor* input : inputs) defined &= input->defined();
  check<ValueError>(defined, "{}_: an input is an undefined tensor; give it a value first",
                    op(id).name);
  for (const Tensor* input : inputs) {
    settle(*input);
    if (!(tl_mode & kNoGrad)) check_view_is_current(*input, op(id).name, "_");
  }
  const bool recording = !(tl_mode & kNoGrad) && any_requires_grad(inputs);
  if (!recording && !overlaps(inputs)) {
    const FastCall fast = fast_call(id, inputs);
    if (fast.loop && fast.shape->dim == self.impl()->dim) {
      run_loop(fast.loop, *self.impl(), inputs, attrs);
      count_write(self);
      return;
    }
    if (!(tl_mode & ~kFastModes) && result_fits(op(id), *self.impl(), inputs)) {
      const Call call{op(id), inputs.begin(), static_cast<std::uint32_t>(inputs.size()), attrs};
      Tensor out = self;
      implementations(id, DeviceType::cpu)[0].run(KernelArgs{call, &out, 1});
      count_write(self);
      return;
    }
  }
  for (const Tensor* input : inputs) {
    if (input->device() == self.device()) continue;
    common_device(fmt::format("{}_", op(id).name).c_str(), inputs);
  }
  std::optional<RecordedWrite> write;
  if (recording) write.emplace(self, op(id).name, "_");
  Tensor result;
  try {
    result = recording ? recorded_result(id, inputs, attrs) : elementwise(id, inputs, attrs);
  } catch (const Error& error) {
    rethrow_in_call(error, fmt::format("{}_", op(id).name), inputs);
  }
  check<ShapeError>(result.sizes() == self.sizes(),
                    "{}_: the result of size {} does not fit the tensor of size {}", op(id).name,
                    result.sizes(), self.sizes());
  check<DTypeError>(category(result.dtype()) <= category(self.dtype()),
                    "{}_: a {} result cannot be written into a {} tensor; use {}()", op(id).name,
                    name_of(result.dtype()), name_of(self.dtype()), op(id).name);
  {
    ModeGuard no_grad(kNoGrad);
    self.copy_(result);
  }
  if (!recording) return;
  if (result.requires_grad() && result.dtype() != self.dtype()) result = result.to(self.dtype());
  write->continue_with(result);
}

Tensor wrapped_number(Scalar value, const Tensor& partner) {
  // Otherwise promotion decides from the number's own dtype, and ops that compute in floating point
  // get it unharmed: a uint8 tensor divided by 256 is not divided by 0.
  DType dtype = value.dtype();
  if (partner.defined()) {
    const DType wanted = partner.dtype();
    const bool keeps_value =
        kFloatingTypes.contains(wanted) || dtype == kBool ||
        (dtype == kInt64 && kIntegralTypes.contains(wanted) && in_range(wanted, value.to_int()));
    if (keeps_value && kComputeTypes.contains(wanted)) dtype = wanted;
  }
  Tensor number = Tensor::adopt(new TensorImpl);
  TensorImpl& impl = *number.impl();
  impl.dtype = dtype;
  impl.flags = TensorImpl::kIsContiguous | TensorImpl::kWrappedNumber;
  impl.numel = 1;
  impl.storage = allocate_storage(size_of(dtype), kCPU);
  impl.data = static_cast<std::byte*>(impl.storage->data);
  switch (dtype) {
    case kFloat32: *impl.typed<float>() = static_cast<float>(value.to_double()); break;
    case kFloat64: *impl.typed<double>() = value.to_double(); break;
    case kInt32: *impl.typed<std::int32_t>() = static_cast<std::int32_t>(value.to_int()); break;
    case kInt64: *impl.typed<std::int64_t>() = value.to_int(); break;
    case kUInt8: *impl.typed<std::uint8_t>() = static_cast<std::uint8_t>(value.to_int()); break;
    default: *impl.typed<bool>() = value.to_int() != 0; break;
  }
  return number;
}

Tensor operand_number(OpId id, std::size_t input, Scalar value, const Tensor& partner) {
  if (value.dtype() == kBool) {
    check<DTypeError>(!op(id).def.refuses_masks,
                      "{}: the number {} is bool; combine masks with &, |, ^ (logical_xor) and ~, "
                      "or write {} for it",
                      op(id).name, value, value.to_int());
  }
  if (partner.defined() && !partner.is_floating_point() && !value.is_floating()) {
    const Op& definition = op(id);
    const DType dtype = partner.dtype() == kBool ? value.dtype() : partner.dtype();
    if (definition.def.numbers) definition.def.numbers(value, input, dtype, definition.name);
  }
  return wrapped_number(value, partner);
}

}  // namespace facula::runtime
