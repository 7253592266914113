#include <facula/nn/containers.h>

#include <algorithm>

#include "base/check.h"

namespace facula::nn {

AnyModule::AnyModule(const AnyModule& other)
    : Member(other),
      module_(other.module_ ? other.copy_(*other.module_) : nullptr),
      copy_(other.copy_) {
  // A copy constructor that makes its object anew knows nothing of names.
  if (module_) module_->name_ = other.module_->name_;
}

AnyModule& AnyModule::operator=(AnyModule other) {
  if (std::string name = place_name(); other.module_ && !name.empty()) {
    other.module_->name_ = std::move(name);
  }
  std::swap(module_, other.module_);
  std::swap(copy_, other.copy_);
  return *this;
}

Module& AnyModule::operator*() const {
  if (!module_) [[unlikely]] {
    const std::string name = place_name();
    fail<ValueError>("AnyModule{}: it holds no module; assign one first, and none that was moved",
                     name.empty() ? "" : fmt::format(" \"{}\"", name));
  }
  return *module_;
}

AnyModule clone(const AnyModule& module) {
  AnyModule copy = module;
  if (copy) unshare(*copy);
  return copy;
}

// `other` may be below one of the modules that are replaced: they go last.

ModuleList& ModuleList::operator=(const ModuleList& other) {
  std::vector<AnyModule> items = other.items_;
  Module::operator=(other);
  items_.swap(items);
  return *this;
}

ModuleList& ModuleList::operator=(ModuleList&& other) noexcept {
  std::vector<AnyModule> items = std::move(other.items_);
  Module::operator=(std::move(other));
  items_.swap(items);
  return *this;
}

void ModuleList::push_back(AnyModule module) {
  push_back(std::to_string(items_.size()), std::move(module));
}

void ModuleList::push_back(std::string name, AnyModule module) {
  check<ValueError>(!name.empty() && name.find('.') == std::string::npos,
                    "push_back: \"{}\" cannot name a module; use a name without dots", name);
  check<ValueError>(!has_member(name) && !has_item(name),
                    "push_back: there is a member \"{}\" already", name);
  set_name(*module, std::move(name));
  items_.push_back(std::move(module));
}

bool ModuleList::has_item(std::string_view name) const {
  return std::ranges::any_of(items_,
                             [name](const AnyModule& item) { return item->name() == name; });
}

Module& ModuleList::operator[](std::size_t i) const {
  check<IndexError>(i < items_.size(), "{}{}: index {} is out of range for {} modules", type_name(),
                    name().empty() ? "" : fmt::format(" \"{}\"", name()), i, items_.size());
  return *items_[i];
}

void ModuleList::list_children(std::vector<Module*>& children) const {
  Module::list_children(children);
  for (const AnyModule& item : items_) children.push_back(&*item);
}

Tensor Sequential::forward(const Tensor& input) const {
  Tensor value = input;
  for (const AnyModule& module : *this) value = module(std::move(value));
  return value;
}

}  // namespace facula::nn
