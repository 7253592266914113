// Registration: which objects are members of which module, through copies and moves.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include <facula/nn/containers.h>

#include "base/check.h"
#include "nn/unfinished.h"

namespace facula::nn {

// Copying a module copies its base class first, then its members, one after the other. The new base
// knows where each member will stand - where it stands in the original - and from what it will be
// copied. A member constructed in exactly such a place claims it. So nothing is ever dereferenced
// that might not be there, and a member that never comes (a sliced copy) is noticed at first use.

namespace {

std::mutex mutex;
[[maybe_unused]] const int at_fork =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
/// Lets the constructor of a free-standing parameter skip the lock.
std::atomic<int> unfinished_count = 0;

std::vector<Module*>& unfinished_modules() {
  static auto& modules = *new std::vector<Module*>;
  return modules;
}

}  // namespace

void Module::UnfinishedCopies::add(Module& module) {
  const std::lock_guard lock(mutex);
  auto& unfinished = unfinished_modules();
  if (std::find(unfinished.begin(), unfinished.end(), &module) == unfinished.end()) {
    unfinished.push_back(&module);
    ++unfinished_count;
  }
}

std::unique_lock<std::mutex> Module::UnfinishedCopies::lock() {
  if (unfinished_count.load(std::memory_order_relaxed) == 0) return {};
  return std::unique_lock(mutex);
}

void Module::UnfinishedCopies::remove(Module& module) {
  if (unfinished_count.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex);
  if (std::erase(unfinished_modules(), &module)) --unfinished_count;
}

Module* Module::UnfinishedCopies::claim(const Member& copy, const Member& source) {
  if (unfinished_count.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(mutex);
  auto& unfinished = unfinished_modules();
  for (auto it = unfinished.rbegin(); it != unfinished.rend(); ++it) {
    Module* module = *it;
    for (Entry& entry : module->entries_) {
      if (entry.object != &copy || entry.source != &source) continue;
      entry.source = nullptr;
      const bool complete = std::none_of(module->entries_.begin(), module->entries_.end(),
                                         [](const Entry& e) { return e.source != nullptr; });
      if (complete) {
        unfinished.erase(std::next(it).base());
        --unfinished_count;
      }
      return module;
    }
  }
  return nullptr;
}

Member::Member(Kind kind, const Place& place) : kind_(kind) {
  if (!place.parent_) return;
  Module& parent = *place.parent_;
  const std::string name = place.name_;
  const auto distance =
      reinterpret_cast<std::uintptr_t>(this) - reinterpret_cast<std::uintptr_t>(place.begin_);
  check<ValueError>(distance < place.size_,
                    "{}: \"{}\" is not a direct member of the module it is registered in; keep "
                    "lists of modules in a nn::ModuleList or nn::Sequential",
                    parent.type_name(), name);
  check<ValueError>(!name.empty() && name.find('.') == std::string::npos,
                    "{}: \"{}\" cannot name a member; use a name without dots", parent.type_name(),
                    name);
  // Nothing virtual is called: the parent may be about to construct the members after this one.
  const auto* list = dynamic_cast<const ModuleList*>(&parent);
  check<ValueError>(!parent.has_member(name) && !(list && list->has_item(name)),
                    "{}: there is a member \"{}\" already", parent.type_name(), name);
  parent.entries_.push_back({this, nullptr, name});
  parent_ = &parent;
}

Member::Member(const Member& source) noexcept : kind_(source.kind_) {
  parent_ = Module::UnfinishedCopies::claim(*this, source);
}

std::string Member::place_name() const {
  if (!parent_) return {};
  const auto entry = std::ranges::find(parent_->entries_, this, &Module::Entry::object);
  return entry == parent_->entries_.end() ? std::string() : entry->name;
}

Member::~Member() {
  if (!parent_) return;
  const auto lock = Module::UnfinishedCopies::lock();
  std::erase_if(parent_->entries_,
                [this](const Module::Entry& entry) { return entry.object == this; });
}

Module::Module(const Place& place) : Member(Kind::module, place), name_(place.name_) {}

Module::Module(const Module& other)
    : Member(other), name_(other.name_), hooks_(other.hooks_), training_(other.training_) {
  await_copies(other);
}

Module::Module(Module&& other) noexcept
    : Member(other),
      name_(other.name_),
      hooks_(std::move(other.hooks_)),
      training_(other.training_) {
  await_copies(other);
}

Module& Module::operator=(const Module& other) {
  if (this == &other) return *this;
  hooks_ = other.hooks_;
  training_ = other.training_;
  await_copies(other);
  return *this;
}

Module& Module::operator=(Module&& other) noexcept {
  if (this == &other) return *this;
  hooks_ = std::move(other.hooks_);
  training_ = other.training_;
  await_copies(other);
  return *this;
}

bool Module::has_member(std::string_view name) const {
  return std::ranges::count(entries_, name, &Entry::name) > 0;
}

Module::~Module() { UnfinishedCopies::remove(*this); }

/// Expects a copy of each of `other`'s members that this module does not have already. An
/// assignment finds all of them present, except the content of an empty std::optional.
void Module::await_copies(const Module& other) {
  const auto shift =
      reinterpret_cast<std::uintptr_t>(this) - reinterpret_cast<std::uintptr_t>(&other);
  bool waiting = false;
  for (const Entry& entry : other.entries_) {
    auto* place = reinterpret_cast<Member*>(reinterpret_cast<std::uintptr_t>(entry.object) + shift);
    const bool present = std::any_of(entries_.begin(), entries_.end(),
                                     [place](const Entry& own) { return own.object == place; });
    if (present) continue;
    entries_.push_back({place, entry.object, entry.name});
    waiting = true;
  }
  if (waiting) UnfinishedCopies::add(*this);
}

void Module::check_complete() const {
  for (const Entry& entry : entries_) {
    check<ValueError>(entry.source == nullptr,
                      "{}: its member \"{}\" was not copied along; copy a module as the type that "
                      "it is, and copy every member in a copy constructor of your own",
                      type_name(), entry.name);
  }
}

}  // namespace facula::nn
