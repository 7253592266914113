// Modules: objects with parameters and a forward function, nested by plain C++ membership.
//
//   struct Block : nn::Module {
//     nn::Conv2d conv{*this, "conv", {.in = 16, .out = 16, .kernel = 3, .padding = 1}};
//     nn::BatchNorm2d norm{*this, "norm", {.features = 16}};
//     nn::Parameter scale{*this, "scale", ones({1})};
//     nn::Buffer calls{*this, "calls", zeros({}, kInt64)};
//
//     Tensor forward(const Tensor& x) const override { return relu(norm(conv(x))) * scale; }
//   };
//
// The contract:
// * Declaring a child, parameter or buffer as a member, with `*this` and a name, is all there is to
//   registering it. A module's parameters are listed first, then its buffers, then its children,
//   each in the order of their declaration, under PyTorch's dotted names. A list of modules is a
//   Sequential or a ModuleList, one of a type that is chosen at run time an AnyModule; an object
//   elsewhere on the heap (in a std::vector, behind a pointer) throws ValueError when it is
//   registered.
// * A block of your own takes a Place, and is declared `Block block{32, 64, {*this, "block"}}`:
//     Block(int in, int out, nn::Place place = {}) : Module(place), ... {}
// * A module is a value. What is registered is the place in the parent; copying, moving and
//   assigning exchange only what is in it. So `model.fc = nn::Linear({.in = 512, .out = 10})`
//   replaces a layer, and a module may be returned from a function or kept in a std::optional
//   member. One that is empty takes a layer by `head.emplace(*this, "head", ...)`; assigned or
//   swapped into it, a layer would be in no place that is registered. A std::variant takes another
//   alternative by emplace as well; assigning the module around it does not change alternatives.
// * A copy shares the parameters' tensors, as a copied Tensor does, while train() and hooks are its
//   own; clone(module) copies the tensors as well. Hence sharing is assignment: after
//   `decoder.weight = encoder.weight`, parameters() lists the one tensor once, under the name that
//   comes first, and state_dict() under both.
// * forward is const. In eval() mode any number of threads may call one module at the same time; in
//   training mode batch norm writes its statistics, so one thread at a time.
// * Parameters with requires_grad_(false) are left out of recording: fine-tuning the last layers of
//   a network costs no memory and no backward time for the others.
// * A module made or copied in InferenceMode is one like any other, and can be trained outside it:
//   parameters and buffers copy a tensor made there.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include <facula/state_dict.h>
#include <facula/tensor.h>

namespace facula::nn {

class Module;

/// Where a module, parameter or buffer stands: a member of `parent` called `name`, or (by default)
/// nowhere, on its own. The name must outlive the constructor call only.
class Place {
 public:
  Place() = default;
  template <std::derived_from<Module> Parent>
  Place(Parent& parent, const char* name)
      : parent_(&parent), begin_(&parent), size_(sizeof(Parent)), name_(name) {}

 private:
  friend class Member;
  friend class Module;
  Module* parent_ = nullptr;
  const void* begin_ = nullptr;
  std::size_t size_ = 0;
  const char* name_ = "";
};

/// What modules, parameters and buffers have in common: being a named member of a module.
class FACULA_API Member {
 protected:
  enum class Kind : std::uint8_t { module, any_module, parameter, buffer };

  Member(Kind kind, const Place& place);
  Member(const Member& source) noexcept;
  Member& operator=(const Member&) { return *this; }  // NOLINT(*-self-assignment): the place stays
  ~Member();

  /// The name in the parent; empty without one.
  std::string place_name() const;

 private:
  friend class Module;
  Module* parent_ = nullptr;
  Kind kind_;
};

/// A tensor that is trained. Usable wherever a Tensor is; may be undefined (a layer without bias).
class FACULA_API Parameter : public Tensor, public Member {
 public:
  /// Makes `value` a leaf that requires grad, unless told otherwise.
  Parameter(const Place& place, Tensor value, bool requires_grad = true);
  template <std::derived_from<Module> Parent>
  Parameter(Parent& parent, const char* name, Tensor value, bool requires_grad = true)
      : Parameter(Place(parent, name), std::move(value), requires_grad) {}
  Parameter(const Parameter&) = default;
  Parameter(Parameter&&) = default;
  /// Shares the other's tensor.
  Parameter& operator=(const Parameter&) = default;
  Parameter& operator=(Parameter&&) = default;
  /// Replaces the tensor by `value`, made a leaf that requires grad.
  Parameter& operator=(Tensor value);
};

/// A tensor that belongs to the module's state but is not trained, such as running statistics. Only
/// persistent ones appear in state_dict().
class FACULA_API Buffer : public Tensor, public Member {
 public:
  Buffer(const Place& place, Tensor value, bool persistent = true);
  template <std::derived_from<Module> Parent>
  Buffer(Parent& parent, const char* name, Tensor value, bool persistent = true)
      : Buffer(Place(parent, name), std::move(value), persistent) {}
  Buffer(const Buffer&) = default;
  Buffer(Buffer&&) = default;
  Buffer& operator=(const Buffer&) = default;
  Buffer& operator=(Buffer&&) = default;
  Buffer& operator=(Tensor value);
  bool persistent() const { return persistent_; }

 private:
  bool persistent_;
};

using NamedTensorList = std::vector<std::pair<std::string, Tensor>>;
using NamedModuleList = std::vector<std::pair<std::string, Module*>>;

/// Called before forward; a defined result replaces the input.
using ForwardPreHook = std::function<Tensor(const Module&, const Tensor& input)>;
/// Called after forward; a defined result replaces the output.
using ForwardHook = std::function<Tensor(const Module&, const Tensor& input, const Tensor& output)>;

/// How load_pth reads a file.
struct LoadPthOptions {
  /// Only entries whose names begin with it are taken, under the rest of their names:
  /// "state_dict.module." for a file that saves {"state_dict": DataParallel(model).state_dict()}.
  std::string key_prefix = {};
  /// As in load_state_dict.
  bool strict = true;
};

/// What load_state_dict found amiss.
struct LoadReport {
  std::vector<std::string> missing;     ///< names of the module that the state lacks
  std::vector<std::string> unexpected;  ///< names in the state that the module lacks
};

class FACULA_API Module : public Member {
 public:
  explicit Module(const Place& place = {});
  template <std::derived_from<Module> Parent>
  Module(Parent& parent, const char* name) : Module(Place(parent, name)) {}
  virtual ~Module();

  /// What the module computes. Modules of another signature define a function of their own instead
  /// and call() what it computes, or open a PathScope.
  virtual Tensor forward(const Tensor& input) const;
  /// The same of an input that nobody needs afterwards, so that its memory may hold the result.
  virtual Tensor consume(Tensor input) const { return forward(input); }  // NOLINT(*-param): a sink
  /// Calls forward between the hooks. Errors thrown inside name this module's path.
  Tensor operator()(const Tensor& input) const;
  Tensor operator()(Tensor&& input) const;

  // --- Contents: depth first, its own before its children's, each tensor and module once -----
  std::vector<Tensor> parameters() const;
  NamedTensorList named_parameters() const;
  std::vector<Tensor> buffers() const;
  NamedTensorList named_buffers() const;
  /// The direct children.
  NamedModuleList named_children();
  /// This module (named "") and everything below it.
  NamedModuleList named_modules();
  /// Calls `function` with every module below this one, children first, and then with this one.
  Module& apply(const std::function<void(Module&)>& function);
  /// The name in the parent, also in copies of the module; empty if it never had one.
  const std::string& name() const { return name_; }
  /// "Conv2d", without namespaces.
  std::string type_name() const;
  /// Number of elements of all parameters.
  std::int64_t parameter_count() const;
  /// The tree of modules, a line for each, with the sizes of its own parameters and buffers.
  std::string str() const;

  // --- Modes, placement ----------------------------------------------------------------------
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }
  /// Freezes (false) or unfreezes all parameters.
  Module& requires_grad_(bool requires_grad = true);
  void zero_grad(bool set_to_none = true) const;
  /// Moves or converts all parameters and buffers, in place: optimizers and copies that hold them
  /// see the change. Do not call it between forward and backward. The dtype changes floating
  /// tensors, the memory format 4-d ones.
  Module& to(Device device);
  Module& to(DType dtype);
  Module& to(MemoryFormat format);

  // --- State ---------------------------------------------------------------------------------
  /// Parameters and persistent buffers under PyTorch's names. The tensors share the module's
  /// elements and change with them; clone() what must stay.
  StateDict state_dict() const;
  /// Copies tensors of `state`, converting their dtype, into those of the module. Throws ValueError
  /// listing every misshapen entry and, if `strict`, every missing and unexpected one; the module
  /// is then unchanged. Batch norm's num_batches_tracked may always be missing: files from before
  /// PyTorch 1.0 have none.
  LoadReport load_state_dict(const StateDict& state, bool strict = true) const;
  /// The same with a file of torch.save or of any other format that load_weights reads, which says
  /// what else is thrown; messages name the file.
  LoadReport load_pth(const std::string& path, const LoadPthOptions& options = {}) const;

  // --- Hooks ---------------------------------------------------------------------------------
  /// Return an id for remove_hook. Hooks may remove hooks, themselves too, and register others: the
  /// next call sees it.
  std::int64_t register_forward_pre_hook(ForwardPreHook hook);
  std::int64_t register_forward_hook(ForwardHook hook);
  /// Does nothing if the hook is gone already.
  void remove_hook(std::int64_t id);

 protected:
  // Of a part of a module alone, they would be incomplete: copy the type that it is.
  Module(const Module& other);
  Module(Module&& other) noexcept;
  Module& operator=(const Module& other);
  Module& operator=(Module&& other) noexcept;

  /// Adds the direct children. Containers override it.
  virtual void list_children(std::vector<Module*>& children) const;
  static void set_name(Module& module, std::string name) { module.name_ = std::move(name); }
  /// Whether a registered member has this name.
  bool has_member(std::string_view name) const;
  /// What operator() does with `function` in the place of forward.
  Tensor call(const Tensor& input, const std::function<Tensor(const Tensor&)>& function) const;

 private:
  friend class AnyModule;
  friend class Member;
  friend FACULA_API void unshare(Module& module);

  /// A member of the class whose part of the module begins at `begin`. `source` is set while its
  /// copy is awaited: the object it is copied from.
  struct Entry {
    Member* object;
    const void* begin;
    const Member* source;
    std::string name;

    bool is_like(const Entry& other) const;
  };
  struct Hook {
    std::int64_t id;
    ForwardPreHook before;
    ForwardHook after;
  };
  /// A type that may be gone, with the library that it came from, unless another one is like it.
  struct Type {
    const std::type_info* info = nullptr;
    std::size_t hash = 0;
  };
  struct Walk;
  struct UnfinishedCopies;

  void add_entry(Entry entry);
  void forget_awaited();
  void await_copies(const Module& other);
  void check_complete() const;
  bool is_cut() const noexcept;
  void check_uncut() const;
  void come_from(const Module& other);
  Type whole_type() const noexcept;
  template <class Forward>
  Tensor run(const Forward& forward) const;
  template <class Forward>
  Tensor call_with_hooks(const Tensor& input, const Forward& forward) const;
  template <class Convert>
  void convert_tensors(const Convert& convert);
  /// Puts other tensors in the place of parameters and buffers.
  void replace_tensors(const std::function<Tensor(const Tensor&)>& replacement);

  std::string name_;
  std::vector<Entry> entries_;
  std::vector<Hook> hooks_;
  /// The type of what it was copied from, of which it may be a part; none if it is known not to be.
  Type origin_;
  bool training_ = true;
};

/// Names a module in errors and profiles while a function other than operator() runs.
class FACULA_API PathScope {
 public:
  explicit PathScope(const Module& module);
  ~PathScope();
  PathScope(const PathScope&) = delete;
  PathScope& operator=(const PathScope&) = delete;

 private:
  alignas(void*) unsigned char scope_[2 * sizeof(void*)];
};

FACULA_API std::ostream& operator<<(std::ostream& stream, const Module& module);

/// Gives the module tensors of its own; what it shares within itself stays shared.
FACULA_API void unshare(Module& module);
/// Throws ValueError unless the copy is of the module's own type.
FACULA_API void check_whole(const Module& copy, const Module& module);

/// A deep copy: a module of the same structure with tensors of its own. Throws ValueError for a
/// module of a type derived from M, of which only a part would be copied; clone what owns it, such
/// as an AnyModule.
template <std::derived_from<Module> M>
requires(!std::same_as<M, Module>) M clone(const M& module) {
  M copy = module;
  check_whole(copy, module);
  unshare(copy);
  return copy;
}

}  // namespace facula::nn
