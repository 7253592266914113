#include <facula/nn/module.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <ostream>
#include <typeinfo>

#include <facula/autograd.h>
#include <facula/model_file.h>
#include <facula/nn/containers.h>

#include "autograd/engine.h"
#include "base/check.h"
#include "base/rethrow.h"
#include "core/promotion.h"
#include "core/tensor_impl.h"
#include "nn/types.h"
#include "ops/schema/region.h"
#include "runtime/deferred.h"
#include "runtime/mode.h"
#include "runtime/module_path.h"

namespace facula::nn {

// --- Parameters ----------------------------------------------------------------------------------

namespace {

/// While a module's tensors are made: InferenceMode, which happens to be on, must not decide what
/// the module can be used for later.
struct OutsideInferenceMode : runtime::ModeGuard {
  OutsideInferenceMode() : ModeGuard(0, runtime::kInference) {}
};

Tensor copy_of(const Tensor& tensor) {
  const OutsideInferenceMode outside;
  return tensor.detach().to(tensor.dtype(), false, true);
}

/// The tensor itself unless it was made in InferenceMode.
Tensor as_held(Tensor value) {
  const bool inference = value.defined() && value.impl()->has(TensorImpl::kInferenceTensor);
  return inference ? copy_of(value) : value;
}

Tensor as_parameter(Tensor value, bool requires_grad) {
  if (!value.defined()) return value;
  const OutsideInferenceMode outside;
  value = as_held(std::move(value));
  if (!value.is_leaf()) value = value.detach();
  value.requires_grad_(requires_grad);
  return value;
}

}  // namespace

Parameter::Parameter(const Place& place, Tensor value, bool requires_grad)
    : Tensor(as_parameter(std::move(value), requires_grad)), Member(Kind::parameter, place) {}

Parameter& Parameter::operator=(Tensor value) {
  Tensor::operator=(as_parameter(std::move(value), true));
  return *this;
}

Buffer::Buffer(const Place& place, Tensor value, bool persistent)
    : Tensor(as_held(std::move(value))), Member(Kind::buffer, place), persistent_(persistent) {}

Buffer& Buffer::operator=(Tensor value) {
  Tensor::operator=(as_held(std::move(value)));
  return *this;
}

// --- Calling -------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kPathMark = "\n  in module ";

/// Throws `error`, which is being handled, again, with the path of the innermost module in its
/// message.
[[noreturn, gnu::cold]] void rethrow_located(const Error& error) {
  const bool located = std::string_view(error.what()).find(kPathMark) != std::string_view::npos;
  const std::string path = runtime::module_path();
  if (located || path.empty()) throw;
  base::rethrow_with(std::string(kPathMark) + path);
}

}  // namespace

Tensor Module::forward(const Tensor&) const {
  fail<ValueError>(
      "{}: it has no forward(Tensor); override it, or call the function that it has instead",
      type_name());
}

template <class Forward>
Tensor Module::run(const Forward& forward) const {
  const runtime::ModulePathScope scope(name_);
  const runtime::DeferralScope deferral;
  try {
    if (origin_.info) check_uncut();
    Tensor result = forward();
    if (deferral.outermost()) runtime::settle(result);
    return result;
  } catch (const Error& error) {
    rethrow_located(error);
  }
}

Tensor Module::operator()(const Tensor& input) const {
  return run([&] {
    return hooks_.empty()
               ? forward(input)
               : call_with_hooks(input, [this](const Tensor& value) { return forward(value); });
  });
}

Tensor Module::operator()(Tensor&& input) const {
  return run([&] {
    return hooks_.empty()
               ? consume(std::move(input))
               : call_with_hooks(input, [this](const Tensor& value) { return forward(value); });
  });
}

Tensor Module::call(const Tensor& input,
                    const std::function<Tensor(const Tensor&)>& function) const {
  return run([&] { return call_with_hooks(input, function); });
}

template <class Forward>
Tensor Module::call_with_hooks(const Tensor& input, const Forward& forward) const {
  Tensor value = input;
  // Copies: a hook may remove itself or register others.
  for (const std::vector<Hook> hooks = hooks_; const Hook& hook : hooks) {
    if (!hook.before) continue;
    if (Tensor replaced = hook.before(*this, value); replaced.defined()) value = replaced;
  }
  Tensor result = forward(value);
  for (const std::vector<Hook> hooks = hooks_; const Hook& hook : hooks) {
    if (!hook.after) continue;
    if (Tensor replaced = hook.after(*this, value, result); replaced.defined()) result = replaced;
  }
  return result;
}

namespace {

/// An id is never given twice, so that removing a hook that is gone leaves newer ones alone.
std::int64_t next_hook_id() {
  static std::atomic<std::int64_t> id = 0;
  return ++id;
}

}  // namespace

std::int64_t Module::register_forward_pre_hook(ForwardPreHook hook) {
  check<ValueError>(hook != nullptr,
                    "register_forward_pre_hook: the hook is empty; pass a function");
  hooks_.push_back({next_hook_id(), std::move(hook), nullptr});
  return hooks_.back().id;
}

std::int64_t Module::register_forward_hook(ForwardHook hook) {
  check<ValueError>(hook != nullptr, "register_forward_hook: the hook is empty; pass a function");
  hooks_.push_back({next_hook_id(), nullptr, std::move(hook)});
  return hooks_.back().id;
}

void Module::remove_hook(std::int64_t id) {
  std::erase_if(hooks_, [id](const Hook& hook) { return hook.id == id; });
}

PathScope::PathScope(const Module& module) {
  static_assert(sizeof(scope_) >= sizeof(runtime::ModulePathScope));
  new (scope_) runtime::ModulePathScope(module.name());
}

PathScope::~PathScope() {
  std::launder(reinterpret_cast<runtime::ModulePathScope*>(scope_))->~ModulePathScope();
}

// --- Contents ------------------------------------------------------------------------------------

/// Collects what lies below a module.
struct Module::Walk {
  using Visit = void(const std::string& prefix, const Module& module);

  /// Calls visit(prefix, module) for each module, in order; the prefix ends with a dot unless
  /// empty.
  template <class F>
  static void modules(const Module& module, const std::string& prefix, const F& visit) {
    module.check_complete();
    visit(prefix, module);
    std::vector<Module*> children;
    module.list_children(children);
    for (const Module* child : children) modules(*child, prefix + child->name_ + ".", visit);
  }

  /// Calls visit(name, tensor, member) for each defined parameter or buffer, repetitions included.
  template <class F>
  static void tensors(const Module& root, Kind kind, const F& visit) {
    modules(root, "", [&](const std::string& prefix, const Module& module) {
      for (const Entry& entry : module.entries_) {
        if (entry.object->kind_ != kind) continue;
        Tensor& tensor = kind == Kind::parameter
                             ? static_cast<Tensor&>(static_cast<Parameter&>(*entry.object))
                             : static_cast<Tensor&>(static_cast<Buffer&>(*entry.object));
        if (tensor.defined()) visit(prefix + entry.name, tensor, *entry.object);
      }
    });
  }

  static NamedTensorList unique_tensors(const Module& root, Kind kind) {
    NamedTensorList list;
    tensors(root, kind, [&](const std::string& name, const Tensor& tensor, const Member&) {
      const bool known = std::any_of(list.begin(), list.end(), [&](const auto& entry) {
        return entry.second.is_same(tensor);
      });
      if (!known) list.emplace_back(name, tensor);
    });
    return list;
  }

  /// Parameters and persistent buffers, module by module, as PyTorch orders them.
  static NamedTensorList state(const Module& root) {
    NamedTensorList list;
    modules(root, "", [&](const std::string& prefix, const Module& module) {
      for (const Kind kind : {Kind::parameter, Kind::buffer}) {
        for (const Entry& entry : module.entries_) {
          if (entry.object->kind_ != kind) continue;
          if (kind == Kind::parameter) {
            list.emplace_back(prefix + entry.name, static_cast<Parameter&>(*entry.object));
          } else if (auto& buffer = static_cast<Buffer&>(*entry.object); buffer.persistent()) {
            list.emplace_back(prefix + entry.name, buffer);
          }
        }
      }
    });
    std::erase_if(list, [](const auto& entry) { return !entry.second.defined(); });
    return list;
  }

  static std::vector<Tensor> without_names(const NamedTensorList& named) {
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : named) tensors.push_back(tensor);
    return tensors;
  }
};

void Module::list_children(std::vector<Module*>& children) const {
  for (const Entry& entry : entries_) {
    if (entry.source) continue;  // not there yet
    if (entry.object->kind_ == Kind::module) {
      children.push_back(static_cast<Module*>(entry.object));
    } else if (entry.object->kind_ == Kind::any_module) {
      Module* module = static_cast<AnyModule*>(entry.object)->module_;
      if (module) children.push_back(module);
    }
  }
}

NamedTensorList Module::named_parameters() const {
  return Walk::unique_tensors(*this, Kind::parameter);
}
NamedTensorList Module::named_buffers() const { return Walk::unique_tensors(*this, Kind::buffer); }
std::vector<Tensor> Module::parameters() const { return Walk::without_names(named_parameters()); }
std::vector<Tensor> Module::buffers() const { return Walk::without_names(named_buffers()); }

NamedModuleList Module::named_children() {
  check_complete();
  std::vector<Module*> children;
  list_children(children);
  NamedModuleList named;
  for (Module* child : children) named.emplace_back(child->name_, child);
  return named;
}

NamedModuleList Module::named_modules() {
  NamedModuleList named;
  Walk::modules(*this, "", [&](const std::string& prefix, const Module& module) {
    // The walk starts from a module that may be changed, so all below it may be.
    named.emplace_back(prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1),
                       const_cast<Module*>(&module));
  });
  return named;
}

Module& Module::apply(const std::function<void(Module&)>& function) {
  for (auto& [name, child] : named_children()) child->apply(function);
  function(*this);
  return *this;
}

std::string Module::type_name() const { return nn::type_name(typeid(*this)); }

std::string Module::str() const {
  check_complete();
  std::string own, below;
  for (const Entry& entry : entries_) {
    if (entry.object->kind_ != Kind::parameter && entry.object->kind_ != Kind::buffer) continue;
    const auto& tensor = entry.object->kind_ == Kind::parameter
                             ? static_cast<const Tensor&>(static_cast<Parameter&>(*entry.object))
                             : static_cast<const Tensor&>(static_cast<Buffer&>(*entry.object));
    if (!tensor.defined()) continue;
    own += fmt::format("{}{}: {}", own.empty() ? "" : ", ", entry.name, tensor.sizes().str());
  }
  std::vector<Module*> children;
  list_children(children);
  for (const Module* child : children) {
    std::string text = child->str();
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) {
      text.insert(at + 1, "  ");
    }
    below += fmt::format("  ({}): {}\n", child->name_, text);
  }
  if (below.empty()) return fmt::format("{}({})", type_name(), own);
  return fmt::format("{}({}\n{})", type_name(), own, below);
}

std::ostream& operator<<(std::ostream& stream, const Module& module) {
  return stream << module.str();
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

// --- Modes, placement ----------------------------------------------------------------------------

Module& Module::train(bool on) {
  for (auto& [name, module] : named_modules()) module->training_ = on;
  return *this;
}

Module& Module::requires_grad_(bool requires_grad) {
  for (const Tensor& parameter : parameters()) parameter.requires_grad_(requires_grad);
  return *this;
}

void Module::zero_grad(bool set_to_none) const {
  const NoGradGuard no_grad;
  for (const Tensor& parameter : parameters()) autograd::reset_gradient(parameter, set_to_none);
}

namespace {

/// Gives the tensor that `target` refers to, wherever it is held, the elements of `source`.
void replace_elements(const Tensor& target, const Tensor& source) {
  TensorImpl& to = *target.impl();
  runtime::settle_readers(to.storage);  // they hold the handle that changes
  TensorImpl& from = *source.impl();
  std::swap(to.storage, from.storage);
  std::swap(to.data, from.data);
  std::swap(to.offset, from.offset);
  std::swap(to.family, from.family);
  std::swap(to.view_history, from.view_history);
  std::swap(to.dtype, from.dtype);
  std::swap(to.device, from.device);
  const Dims sizes = from.size_list(), strides = from.stride_list();
  to.set_layout(sizes, strides);
  if (to.has(TensorImpl::kIsView)) end_view(to);
}

}  // namespace

template <class Convert>
void Module::convert_tensors(const Convert& convert) {
  const NoGradGuard no_grad;
  const OutsideInferenceMode outside;
  std::vector<Tensor> tensors = parameters();
  for (const Tensor& buffer : buffers()) tensors.push_back(buffer);
  for (const Tensor& tensor : tensors) {
    const Tensor converted = convert(tensor, false);
    if (converted.is_same(tensor)) continue;
    const Tensor gradient = tensor.grad();
    replace_elements(tensor, converted);
    if (gradient.defined()) tensor.set_grad(convert(gradient.detach(), true));
  }
}

Module& Module::to(Device device) {
  convert_tensors([&](const Tensor& tensor, bool) { return tensor.to(device); });
  return *this;
}

Module& Module::to(DType dtype) {
  check<DTypeError>(facula::is_floating_point(dtype),
                    "{}: to({}): modules are converted to floating dtypes only", type_name(),
                    name_of(dtype));
  convert_tensors([&](const Tensor& tensor, bool is_gradient) {
    if (!tensor.is_floating_point()) return tensor;
    return tensor.to(is_gradient ? gradient_dtype(dtype) : dtype);
  });
  return *this;
}

Module& Module::to(MemoryFormat format) {
  convert_tensors([&](const Tensor& tensor, bool) {
    return tensor.dim() == 4 ? tensor.contiguous(format) : tensor;
  });
  return *this;
}

void check_whole(const Module& copy, const Module& module) {
  check<ValueError>(
      typeid(copy) == typeid(module),
      "clone: {} is copied as {}, which is only a part of it; clone it as what it is, "
      "or the AnyModule that owns it",
      module.type_name(), copy.type_name());
}

void unshare(Module& module) {
  std::vector<std::pair<Tensor, Tensor>> copies;
  module.replace_tensors([&](const Tensor& tensor) {
    for (const auto& [original, copy] : copies) {
      if (original.is_same(tensor)) return copy;
    }
    Tensor copy = copy_of(tensor);
    if (tensor.requires_grad()) copy.requires_grad_();
    copies.emplace_back(tensor, copy);
    return copy;
  });
}

void Module::replace_tensors(const std::function<Tensor(const Tensor&)>& replacement) {
  for (const Kind kind : {Kind::parameter, Kind::buffer}) {
    Walk::tensors(*this, kind, [&](const std::string&, Tensor& tensor, const Member&) {
      tensor = replacement(tensor);
    });
  }
}

// --- State ---------------------------------------------------------------------------------------

StateDict Module::state_dict() const {
  StateDict state;
  for (const auto& [name, tensor] : Walk::state(*this)) state.set(name, tensor.detach());
  return state;
}

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Whether `name`, which the state lacks, counts the batches of a batch norm that is there: such a
/// state is from before PyTorch 1.0.
bool is_old_batch_norm(const std::string& name, const StateDict& state) {
  constexpr std::string_view kCount = "num_batches_tracked";
  if (!name.ends_with(kCount)) return false;
  return state.contains(name.substr(0, name.size() - kCount.size()) + "running_mean");
}

/// The entries whose names begin with `prefix`, without it.
StateDict without_prefix(const StateDict& state, const std::string& prefix) {
  StateDict stripped;
  for (const auto& [name, value] : state.flat()) {
    if (name.size() > prefix.size() && name.starts_with(prefix)) {
      check<ValueError>(name[prefix.size()] != '.' || prefix.ends_with('.'),
                        "load_pth: the key_prefix \"{}\" leaves the point that follows it; end it "
                        "in one",
                        prefix);
      stripped.set(std::string_view(name).substr(prefix.size()), *value);
    }
  }
  return stripped;
}

/// What to do if `state` has a tensor of the module under a longer name; else "".
std::string hint_of_prefix(const NamedTensorList& own, const StateDict& state) {
  if (own.empty() || state.contains(own.front().first)) return "";
  const std::string& name = own.front().first;
  for (const auto& [longer, value] : state.flat()) {
    if (!longer.ends_with("." + name)) continue;
    return fmt::format("\nThe file has \"{}\": if all names begin so, set key_prefix = \"{}\"",
                       longer, longer.substr(0, longer.size() - name.size()));
  }
  return "";
}

/// The first few names, to see what prefix they have.
std::string examples(const StateDict& state) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> names;
  for (const auto& [name, value] : state.flat()) {
    names.push_back(name);
    if (names.size() == kShown) return joined(names) + ", ...";
  }
  return names.empty() ? "nothing" : joined(names);
}

}  // namespace

LoadReport Module::load_state_dict(const StateDict& state, bool strict) const {
  const NamedTensorList own = Walk::state(*this);
  LoadReport report;
  std::vector<std::pair<Tensor, Tensor>> copies;
  std::string problems;
  for (const auto& [name, tensor] : own) {
    const StateValue* value = state.find(name);
    if (!value) {
      if (!is_old_batch_norm(name, state)) report.missing.push_back(name);
      continue;
    }
    const Tensor* stored = value->get_if<Tensor>();
    if (!stored || !stored->defined()) {
      problems += fmt::format("\n  \"{}\" is {}, expected a tensor", name,
                              stored ? "an undefined tensor" : value->kind_name());
    } else if (!(stored->sizes() == tensor.sizes())) {
      problems += fmt::format("\n  \"{}\" has size {}, the module's has {}", name,
                              stored->sizes().str(), tensor.sizes().str());
    } else if (stored->device().is_null() && !tensor.device().is_null()) {
      problems += fmt::format("\n  \"{}\" is on the null device, which keeps no elements", name);
    } else if (!meets_elements_once(tensor.sizes(), tensor.strides())) {
      problems += fmt::format(
          "\n  \"{}\" of the module is expanded, its elements share memory; "
          "make it contiguous() first",
          name);
    } else {
      copies.emplace_back(tensor, *stored);
    }
  }
  for (const auto& [name, value] : state.flat()) {
    const bool known =
        std::ranges::any_of(own, [&name = name](const auto& entry) { return entry.first == name; });
    if (!known) report.unexpected.push_back(name);
  }
  // Sizes never fit by skipping names.
  const char* remedy =
      problems.empty() ? ", or pass strict = false to skip names" : ", or leave out such entries";
  if (strict && !report.missing.empty()) problems += "\n  missing: " + joined(report.missing);
  if (strict && !report.unexpected.empty()) {
    problems += "\n  unexpected: " + joined(report.unexpected);
  }
  check<ValueError>(problems.empty(),
                    "load_state_dict: the state does not fit {}; load it into the model it was "
                    "saved from{}:{}",
                    type_name(), remedy, problems);
  const NoGradGuard no_grad;
  for (const auto& [tensor, stored] : copies) tensor.copy_(stored.to(tensor.device()));
  return report;
}

LoadReport Module::load_pth(const std::string& path, const LoadPthOptions& options) const {
  const StateDict file = load_weights(path);
  try {
    if (options.key_prefix.empty()) return load_state_dict(file, options.strict);
    const StateDict state = without_prefix(file, options.key_prefix);
    check<ValueError>(!state.empty(),
                      "load_pth: no name begins with the key_prefix \"{}\"; the file has {}",
                      options.key_prefix, examples(file));
    return load_state_dict(state, options.strict);
  } catch (const ValueError& error) {
    const bool prefixed = !options.key_prefix.empty();
    fail<ValueError>("{}: {}{}", path, error.what(),
                     prefixed ? "" : hint_of_prefix(Walk::state(*this), file));
  }
}

}  // namespace facula::nn
