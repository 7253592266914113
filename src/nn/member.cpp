// Registration: which objects are members of which module, through copies and moves.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <mutex>
#include <typeinfo>

#include <facula/nn/containers.h>

#include "base/check.h"
#include "nn/types.h"
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

[[noreturn]] void fail_not_copied(const std::string& type, const std::string& member) {
  fail<ValueError>(
      "{}: its member \"{}\" was not copied along; copy a module as the type that it is, copy "
      "every member in a copy constructor of your own, and copy instead of assigning where a "
      "std::variant is to hold another alternative",
      type, member);
}

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
  // A copy constructor that leaves a member out runs its initializer, with *this and the name.
  const bool awaited = std::ranges::any_of(parent.entries_, [&name](const Module::Entry& entry) {
    return entry.source && entry.name == name;
  });
  if (awaited) fail_not_copied(parent.type_name(), name);
  // Nothing virtual is called: the parent may be about to construct the members after this one.
  const auto* list = dynamic_cast<const ModuleList*>(&parent);
  check<ValueError>(!parent.has_member(name) && !(list && list->has_item(name)),
                    "{}: there is a member \"{}\" already", parent.type_name(), name);
  parent.add_entry({this, place.begin_, nullptr, name});
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
  // A copy of another type may be awaited in the same place.
  std::erase_if(parent_->entries_, [this](const Module::Entry& entry) {
    return entry.object == this && !entry.source;
  });
}

Module::Module(const Place& place) : Member(Kind::module, place), name_(place.name_) {}

Module::Module(const Module& other)
    : Member(other),
      name_(other.name_),
      hooks_(other.hooks_),
      origin_(other.whole_type()),
      training_(other.training_) {
  await_copies(other);
}

Module::Module(Module&& other) noexcept
    : Member(other),
      name_(other.name_),
      hooks_(std::move(other.hooks_)),
      origin_(other.whole_type()),
      training_(other.training_) {
  await_copies(other);
}

Module& Module::operator=(const Module& other) {
  if (this == &other) return *this;
  hooks_ = other.hooks_;
  training_ = other.training_;
  come_from(other);
  return *this;
}

Module& Module::operator=(Module&& other) noexcept {
  if (this == &other) return *this;
  hooks_ = std::move(other.hooks_);
  training_ = other.training_;
  come_from(other);
  return *this;
}

bool Module::has_member(std::string_view name) const {
  return std::ranges::count(entries_, name, &Entry::name) > 0;
}

Module::~Module() { UnfinishedCopies::remove(*this); }

/// In the order of declaration, which is that of addresses within what a class declares:
/// std::optional members come and go. Classes follow each other as they were constructed: without
/// virtual bases (which may differ) their members lie behind the module itself, in that order,
/// whichever class they were emplaced through.
void Module::add_entry(Entry entry) {
  const std::less<const void*> before;
  const auto next = std::ranges::find_if(entries_, [&](const Entry& own) {
    const bool behind = !before(entry.object, this) && !before(own.object, this);
    return (behind || own.begin == entry.begin) && before(entry.object, own.object);
  });
  entries_.insert(next, std::move(entry));
}

/// What it was assigned before and is still waiting for will not come any more.
void Module::forget_awaited() {
  {
    const auto lock = UnfinishedCopies::lock();
    std::erase_if(entries_, [](const Entry& entry) { return entry.source != nullptr; });
  }
  UnfinishedCopies::remove(*this);
}

/// An assignment: unlike in a copy constructor, the type is known.
void Module::come_from(const Module& other) {
  origin_ = other.whole_type();
  if (!is_cut()) origin_ = {};
  forget_awaited();
  await_copies(other);
}

/// Expects a copy of each of `other`'s members that this module does not have already. An
/// assignment finds all of them present, except the content of an empty std::optional, or another
/// alternative in its place in a std::variant.
void Module::await_copies(const Module& other) {
  const auto shift =
      reinterpret_cast<std::uintptr_t>(this) - reinterpret_cast<std::uintptr_t>(&other);
  bool waiting = false;
  const auto shifted = [shift](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) + shift;
  };
  for (const Entry& entry : other.entries_) {
    auto* place = reinterpret_cast<Member*>(shifted(entry.object));
    const bool present = std::ranges::any_of(entries_, [&](const Entry& own) {
      if (own.object != place) return false;
      // What is only a part of `other` is not assigned the other members.
      return entry.source || own.is_like(entry) || typeid(*this) != typeid(other);
    });
    if (present) continue;
    add_entry(
        {place, reinterpret_cast<const void*>(shifted(entry.begin)), entry.object, entry.name});
    waiting = true;
  }
  if (waiting) UnfinishedCopies::add(*this);
}

/// Whether it holds an object of the same type.
bool Module::Entry::is_like(const Entry& other) const {
  if (object->kind_ != other.object->kind_) return false;
  if (object->kind_ != Member::Kind::module) return true;
  const Module &own = static_cast<Module&>(*object), &others = static_cast<Module&>(*other.object);
  return typeid(own) == typeid(others);
}

/// Whether it is a part of what it was copied from. More is not: a class may be made from its base.
bool Module::is_cut() const noexcept {
  const std::type_info& type = typeid(*this);
  if (!origin_.info || origin_.info == &type || origin_.hash == type.hash_code()) return false;
  return has_base(*origin_.info, type);
}

/// The type that a copy of this module should have.
Module::Type Module::whole_type() const noexcept {
  if (is_cut()) return origin_;
  return {&typeid(*this), typeid(*this).hash_code()};
}

/// For calls alone: in constructors and destructors of a base class, where members are listed, too,
/// the type is not the whole one.
void Module::check_uncut() const {
  if (!is_cut()) return;
  fail<ValueError>(
      "{}: it is a copy of a {}, of which it is only a part; copy a module as the type that it is, "
      "and make a list of one such module with push_back()",
      type_name(), nn::type_name(*origin_.info));
}

void Module::check_complete() const {
  for (const Entry& entry : entries_) {
    if (entry.source) fail_not_copied(type_name(), entry.name);
  }
}

}  // namespace facula::nn
