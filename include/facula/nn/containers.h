// Modules made of a list of modules.
#pragma once

#include <facula/nn/module.h>

namespace facula::nn {

/// Owns one module of any type, or none. Copying copies the module, which shares its tensors. As a
/// member it is declared like every other, and what it owns is a child of that name:
///
///   nn::AnyModule backbone{*this, "backbone", models::create("resnet18")};
class FACULA_API AnyModule : public Member {
 public:
  explicit AnyModule(const Place& place = {}) : Member(Kind::any_module, place) {}
  /// Of the module's own type: a Module& no longer tells what is to be copied.
  template <std::derived_from<Module> M>
  requires(!std::same_as<M, Module>) AnyModule(M module)
      : Member(Kind::any_module, Place()),
        module_(new M(std::move(module))),
        copy_([](const Module& other) -> Module* { return new M(static_cast<const M&>(other)); }) {}
  template <std::derived_from<Module> Parent>
  AnyModule(Parent& parent, const char* name, AnyModule module = AnyModule())
      : AnyModule(Place(parent, name)) {
    *this = std::move(module);
  }
  AnyModule(const AnyModule& other);
  AnyModule(AnyModule&& other) noexcept
      : Member(other), module_(std::exchange(other.module_, nullptr)), copy_(other.copy_) {}
  AnyModule& operator=(AnyModule other);
  ~AnyModule() { delete module_; }

  explicit operator bool() const { return module_ != nullptr; }
  /// Throws ValueError, as the following do, if there is no module.
  Module& operator*() const;
  Module* operator->() const { return &**this; }
  Tensor operator()(const Tensor& input) const { return (**this)(input); }
  Tensor operator()(Tensor&& input) const { return (**this)(std::move(input)); }
  /// Null if there is no module, or none that is an M.
  template <std::derived_from<Module> M>
  M* get_if() const {
    return dynamic_cast<M*>(module_);
  }

 private:
  friend class Module;
  Module* module_ = nullptr;
  Module* (*copy_)(const Module& other) = nullptr;
};

/// A deep copy of what it owns; none of none.
FACULA_API AnyModule clone(const AnyModule& module);

/// A list of modules named "0", "1", ... It has no forward of its own.
class FACULA_API ModuleList : public Module {
 public:
  explicit ModuleList(const Place& place = {}) : Module(place) {}
  template <std::derived_from<Module> Parent>
  ModuleList(Parent& parent, const char* name) : Module(Place(parent, name)) {}
  ModuleList(const ModuleList&) = default;
  ModuleList(ModuleList&&) = default;
  ModuleList& operator=(const ModuleList& other);
  ModuleList& operator=(ModuleList&& other) noexcept;

  void push_back(AnyModule module);
  /// Under a name of its own. Throws ValueError for a repeated or unusable name, or no module.
  void push_back(std::string name, AnyModule module);
  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  /// Throws IndexError.
  Module& operator[](std::size_t i) const;
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 protected:
  void list_children(std::vector<Module*>& children) const override;

 private:
  friend class Member;
  bool has_item(std::string_view name) const;

  std::vector<AnyModule> items_;
};

/// Feeds each module's output to the next. An empty one returns its input.
class FACULA_API Sequential : public ModuleList {
 public:
  explicit Sequential(const Place& place = {}) : ModuleList(place) {}
  template <std::derived_from<Module> Parent, std::convertible_to<AnyModule>... Modules>
  Sequential(Parent& parent, const char* name, Modules... modules)
      : ModuleList(Place(parent, name)) {
    (push_back(std::move(modules)), ...);
  }
  /// A Sequential alone is copied, and one of a derived type refused when the copy is used;
  /// push_back() either to have it as the only module.
  template <std::convertible_to<AnyModule>... Modules>
  requires(sizeof...(Modules) > 1 ||
           (sizeof...(Modules) == 1 && !(std::derived_from<Modules, Sequential> &&
                                         ...))) explicit Sequential(Modules... modules) {
    (push_back(std::move(modules)), ...);
  }

  Tensor forward(const Tensor& input) const override;
};

}  // namespace facula::nn
