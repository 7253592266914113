#include "runtime/dispatch.h"

#include <atomic>

#include "base/check.h"
#include "base/env.h"
#include "base/rethrow.h"
#include "core/tensor_impl.h"
#include "ops/dynamic.h"
#include "ops/schema/checks.h"
#include "runtime/deferred.h"
#include "runtime/fusion.h"
#include "runtime/mode.h"
#include "runtime/recorded_write.h"
#include "runtime/verbose.h"

namespace facula::runtime {

thread_local constinit std::uint32_t tl_mode = kFirstCall;
Hooks hooks;

namespace {

std::atomic<Selector*> active_selector = nullptr;

void begin_thread() {
  static const bool verbose = base::env_bool("FACULA_VERBOSE").value_or(false);
  tl_mode = (tl_mode & ~kFirstCall) | (verbose ? std::uint32_t{kVerbose} : 0);
}

Device device_of(const Call& call) {
  return common_device(call.op.name, {call.inputs, call.count});
}

[[noreturn, gnu::cold]] void fail_refused_by_all(const std::vector<Implementation>& list,
                                                 const KernelArgs& args, Device device) {
  std::string reasons;
  for (const Implementation& candidate : list) {
    reasons += fmt::format("\n  {}: {}", candidate.name, candidate.refuse(args));
  }
  fail<ValueError>("{}: no implementation on {} takes this problem:{}", args.call.op.name, device,
                   reasons);
}

const Implementation& choose(const std::vector<Implementation>& list, const KernelArgs& args,
                             Device device) {
  check<DeviceError>(!list.empty(), "{}: not available on {}; move the inputs with to()",
                     args.call.op.name, device);
  if (list.size() == 1 && !list[0].refuse) return list[0];
  if (tl_mode & kReference) return list.back();
  if (Selector* selector = active_selector.load(std::memory_order_acquire)) {
    const std::size_t chosen = selector->select(list, args);
    if (chosen < list.size()) return list[chosen];
  }
  for (const Implementation& candidate : list) {
    if (!candidate.refuse || !candidate.refuse(args)) return candidate;
  }
  fail_refused_by_all(list, args, device);
}

bool wants_recording(const Call& call) {
  if (tl_mode & kNoGrad) return false;
  bool wanted = false;
  for (std::uint32_t i = 0; i < call.count; ++i) {
    const Tensor& tensor = call.in(i);
    if (!tensor.defined()) continue;
    check_view_is_current(tensor, call.op.name);
    wanted |= tensor.impl()->requires_grad();
  }
  return wanted;
}

void make_outputs(const Call& call, const SmallVector<OutputSpec, 4>& specs, Device device,
                  Outputs& outputs) {
  const bool inference = tl_mode & kInference;
  for (const OutputSpec& spec : specs) {
    Tensor output;
    if (spec.view) {
      const TensorImpl& viewed = *call.in(0).impl();
      output = alias(viewed, spec.sizes, spec.strides, spec.offset);
      set_view_of(call.in(0), *output.impl());
      const bool unrecorded = tl_mode & kNoGrad && call.in(0).requires_grad();
      if (unrecorded || viewed.has(TensorImpl::kUnrecordedView)) {
        output.impl()->set(TensorImpl::kUnrecordedView);
        output.impl()->base = Tensor();  // whose history would live as long
      }
    } else {
      output = new_strided(spec.sizes, spec.strides, spec.dtype, device);
      if (inference) output.impl()->set(TensorImpl::kInferenceTensor);
    }
    outputs.push_back(std::move(output));
  }
}

void count_writes(const Call& call, Device device) {
  const std::uint32_t written = call.op.def.aliasing->written();
  std::size_t place = 0;
  for (std::size_t argument = 0; argument < call.op.tensor_arguments; ++argument) {
    const std::size_t entries = call.segments ? call.segments[argument] : 1;
    for (std::size_t i = 0; i < entries; ++i, ++place) {
      if (written >> argument & 1 && call.has(place)) {
        // A number goes along with any device, but nothing is written into it from there.
        check<DeviceError>(call.in(place).device() == device,
                           "{}: the written tensor is on {}, another operand on {}; move them to "
                           "one device with to()",
                           call.op.name, call.in(place).device(), device);
        check_in_place(call.in(place), call.op.name);
        count_write(call.in(place));
      }
    }
  }
}

void run_on(Device device, const Call& call, std::span<Tensor> outputs) {
  const KernelArgs args{call, outputs.data(), outputs.size()};
  const std::vector<Implementation>& list = implementations(call.op.id, device.type);
  const Implementation& implementation = choose(list, args, device);
  if (tl_mode & kVerbose) {
    run_verbosely(implementation, list, args);
  } else {
    implementation.run(args);
  }
}

void run_plain(const Call& call, Outputs& outputs) {
  if (run_fused(call, false, outputs)) return;
  const OpDef& def = call.op.def;
  const Device device = device_of(call);
  SmallVector<OutputSpec, 4> specs;
  Infer infer(call, specs);
  (*def.infer)(infer);
  const bool recording = wants_recording(call) && def.gradient->rule();
  if (def.aliasing->written()) count_writes(call, device);
  if (DeferralScope::exists() && defer_call(call, specs, outputs)) {
    if (recording) hooks.record(call, outputs);
    return;
  }
  for (std::uint32_t i = 0; i < call.count; ++i) settle(call.in(i));
  make_outputs(call, specs, device, outputs);
  if (!def.aliasing->is_view() && !device.is_null()) run_on(device, call, outputs);
  if (recording) hooks.record(call, outputs);
}

/// The name of the first undefined tensor among those that the op's signature does not call
/// optional; empty if there is none.
std::string missing_argument(const Call& call) {
  std::size_t argument = 0, place = 0;
  for (const ops::Parameter& parameter : ops::parameters_of(*call.op.def.signature)) {
    if (!parameter.type.starts_with("Tensor")) continue;
    if (parameter.type == "Tensor" && !call.has(place)) return parameter.name;
    place += call.segments ? call.segments[argument++] : 1;
  }
  return {};
}

/// Throws `error`, which is being handled, again; unless its message names the op and the sizes of
/// all operands, they are added. What a rule stumbled over because an argument is missing, without
/// naming the op, becomes a message about the argument.
[[noreturn, gnu::cold]] void rethrow_with_operands(const Error& error, const Call& call) {
  const std::string_view message = error.what();
  const bool names_op = message.find(call.op.name) != std::string_view::npos;
  bool complete = names_op;
  std::string operands;
  for (std::uint32_t i = 0; i < call.count; ++i) {
    const Tensor& tensor = call.in(i);
    const std::string sizes = tensor.defined() ? tensor.sizes().str() : "undefined";
    complete &= message.find(sizes) != std::string_view::npos;
    operands +=
        fmt::format("{}{}{}", i == 0 ? "" : ", ",
                    tensor.defined() ? fmt::format("{} ", name_of(tensor.dtype())) : "", sizes);
  }
  if (complete) throw;
  if (const std::string missing = names_op ? "" : missing_argument(call); !missing.empty()) {
    fail<ValueError>(
        "{0}: {1} is an undefined tensor (a default-constructed handle); give it a value first\n"
        "  in {0}({2})",
        call.op.name, missing, operands);
  }
  base::rethrow_with(fmt::format("\n  in {}({})", call.op.name, operands));
}

void run(const Call& call, Outputs& outputs) {
  try {
    run_plain(call, outputs);
  } catch (const Error& error) {
    rethrow_with_operands(error, call);
  }
}

}  // namespace

void check_view_is_current(const Tensor& tensor, const char* op_name, const char* suffix) {
  if (!has_stale_history(*tensor.impl())) [[likely]]
    return;
  check<AutogradError>(renew_history(tensor),
                       "{}{}: it was given a view of a tensor that was changed in place after the "
                       "view was taken, so "
                       "its gradient is unknown; take the view again after the in-place operation",
                       op_name, suffix);
}

void set_selector(Selector* selector) {
  active_selector.store(selector, std::memory_order_release);
}

void dispatch(const Call& call, Outputs& outputs) {
  if (tl_mode & kFirstCall) [[unlikely]]
    begin_thread();
  const std::uint32_t mode = tl_mode;
  if (mode & (kTracing | kAutocast | kProfiling)) [[unlikely]] {
    if (mode & kTracing && hooks.trace) return hooks.trace(call, outputs);
    if (mode & kAutocast && hooks.autocast) return hooks.autocast(call, outputs);
    if (mode & kProfiling && hooks.profile_begin) {
      hooks.profile_begin(call);
      run(call, outputs);
      return hooks.profile_end(call, outputs);
    }
  }
  run(call, outputs);
}

void run_into(const Call& call, std::span<Tensor> outputs) {
  run_on(device_of(call), call, outputs);
}

void dispatch(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs,
              Outputs& outputs) {
  dispatch(Call{op(id), inputs.begin(), static_cast<std::uint32_t>(inputs.size()), attrs}, outputs);
}

bool dispatch_over(const Tensor& self, OpId id, std::initializer_list<const Tensor*> inputs,
                   const void* attrs) {
  if (tl_mode & (kTracing | kAutocast | kProfiling) || !self.defined()) return false;
  if (self.device() != kCPU) return false;
  const Call call{op(id), inputs.begin(), static_cast<std::uint32_t>(inputs.size()), attrs};
  for (const Tensor* const& input : inputs) {
    if (!input->defined() || (!(tl_mode & kNoGrad) && input->requires_grad())) return false;
    // Ops begin with their first operand; others may be read after something has been written.
    const bool read_before = &input == inputs.begin() || call.op.def.elementwise;
    const bool same_elements = read_before && input->is_same(self);
    if (!same_elements && input->impl()->storage == self.impl()->storage) return false;
  }
  try {
    SmallVector<OutputSpec, 4> specs;
    Infer infer(call, specs);
    (*call.op.def.infer)(infer);
    if (specs[0].sizes != self.sizes() || specs[0].dtype != self.dtype()) return false;
    check_in_place(self, call.op.name, "_");
    for (const Tensor* input : inputs) settle(*input);
    Tensor out = self;
    run_into(call, {&out, 1});
  } catch (const Error&) {
    return false;  // the ordinary way finds words for it
  }
  count_write(self);
  return true;
}

void check_in_place(const Tensor& written, const char* op_name, const char* suffix) {
  TensorImpl& impl = *written.impl();
  settle(written);
  settle_readers(impl.storage);
  if (!(tl_mode & kNoGrad)) {
    check_view_is_current(written, op_name, suffix);
    check<AutogradError>(!impl.has(TensorImpl::kIsLeafVariable) || !impl.requires_grad(),
                         "{}{}: a leaf tensor that requires grad is changed in place; wrap the "
                         "change in NoGradGuard or use the out-of-place operation",
                         op_name, suffix);
    check<AutogradError>(
        !impl.has(TensorImpl::kUnrecordedView),
        "{}{}: the written tensor is a view that was taken under NoGradGuard of a tensor that "
        "requires grad, whose history would not know of the change; take the view with gradients "
        "enabled, wrap the change in NoGradGuard as well, or write into detach()",
        op_name, suffix);
  }
  for (int d = 0; d < impl.dim; ++d) {
    check<ShapeError>(impl.strides[d] != 0 || impl.sizes[d] <= 1 || impl.numel == 0,
                      "{}{}: several elements of the written tensor of size {} share one memory "
                      "place (it was expanded); call contiguous() first",
                      op_name, suffix, impl.size_list());
  }
}

void count_write(const Tensor& written) {
  if (Storage* storage = written.impl()->storage) ++storage->version;
}

}  // namespace facula::runtime
