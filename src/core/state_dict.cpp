#include <facula/state_dict.h>

#include <bit>
#include <functional>

#include "base/check.h"

namespace facula {
namespace {

/// Deeper trees serve nobody, and walks of a tree recurse.
constexpr std::size_t kMaxParts = 64;
/// So many entries are found faster one after the other than by hash.
constexpr std::size_t kFewEntries = 16;
constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

/// Cuts the first part off a dotted name.
std::string_view next_part(std::string_view& rest, std::string_view whole) {
  const std::size_t dot = rest.find('.');
  const std::string_view part = rest.substr(0, dot);
  check<ValueError>(!part.empty(), "state dict: the name \"{}\" has an empty part", whole);
  rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  check<ValueError>(dot == std::string_view::npos || !rest.empty(),
                    "state dict: the name \"{}\" has an empty part", whole);
  return part;
}

template <class T>
const T& get(const StateDict& state, std::string_view name, const char* expected) {
  const StateValue& value = state.at(name);
  const T* typed = value.get_if<T>();
  check<ValueError>(typed != nullptr, "state dict: \"{}\" is {}, expected {}", name,
                    value.kind_name(), expected);
  return *typed;
}

void collect(const StateDict& state, const std::string& prefix,
             std::vector<StateDict::Leaf>& leaves) {
  for (const auto& [key, value] : state.entries()) {
    const std::string name = prefix + key;
    if (const auto* inner = value.get_if<StateDict>()) {
      collect(*inner, name + ".", leaves);
    } else {
      leaves.emplace_back(name, &value);
    }
  }
}

}  // namespace

StateDict::StateDict() = default;
StateDict::StateDict(const StateDict& other) = default;
StateDict::StateDict(StateDict&& other) noexcept = default;
StateDict& StateDict::operator=(const StateDict& other) = default;
StateDict& StateDict::operator=(StateDict&& other) noexcept = default;
StateDict::~StateDict() = default;

bool StateDict::empty() const { return entries_.empty(); }

std::size_t StateDict::position_of(std::string_view key) const {
  if (index_.empty()) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].first == key) return i;
    }
    return kNowhere;
  }
  const std::size_t mask = index_.size() - 1;
  for (std::size_t slot = std::hash<std::string_view>()(key) & mask; index_[slot] != 0;
       slot = (slot + 1) & mask) {
    const std::size_t position = index_[slot] - 1;
    if (entries_[position].first == key) return position;
  }
  return kNowhere;
}

StateValue& StateDict::append(std::string_view key, StateValue value) {
  entries_.emplace_back(key, std::move(value));
  if (entries_.size() <= kFewEntries) return entries_.back().second;
  std::size_t first = entries_.size() - 1;  // the first entry that the index lacks
  if (2 * entries_.size() > index_.size()) {
    index_.assign(4 * std::bit_ceil(entries_.size()), 0);
    first = 0;
  }
  const std::size_t mask = index_.size() - 1;
  for (std::size_t i = first; i < entries_.size(); ++i) {
    std::size_t slot = std::hash<std::string>()(entries_[i].first) & mask;
    while (index_[slot] != 0) slot = (slot + 1) & mask;
    index_[slot] = static_cast<std::uint32_t>(i + 1);
  }
  return entries_.back().second;
}

void StateDict::set(std::string_view name, StateValue value) {
  std::string_view rest = name;
  StateDict* level = this;
  for (std::size_t depth = 1;; ++depth) {
    const std::string_view part = next_part(rest, name);
    check<ValueError>(depth <= kMaxParts, "state dict: a name has more than {} parts: \"{}...\"",
                      kMaxParts, name.substr(0, 100));
    const std::size_t position = level->position_of(part);
    StateValue* existing = position == kNowhere ? nullptr : &level->entries_[position].second;
    if (rest.empty()) {
      if (existing) {
        *existing = std::move(value);
      } else {
        level->append(part, std::move(value));
      }
      return;
    }
    if (!existing) existing = &level->append(part, StateDict());
    level = existing->get_if<StateDict>();
    check<ValueError>(level != nullptr, "state dict: cannot set \"{}\": \"{}\" is {}, not a tree",
                      name, part, existing->kind_name());
  }
}

const StateValue* StateDict::find(std::string_view name) const& {
  std::string_view rest = name;
  const StateDict* level = this;
  while (level) {
    const std::size_t position = level->position_of(next_part(rest, name));
    if (position == kNowhere) return nullptr;
    const StateValue& value = level->entries_[position].second;
    if (rest.empty()) return &value;
    level = value.get_if<StateDict>();
  }
  return nullptr;
}

const StateValue& StateDict::at(std::string_view name) const& {
  const StateValue* value = find(name);
  if (!value) {
    std::string known;
    for (const auto& [leaf, unused] : flat()) {
      if (known.size() > 1000) {
        known += ", ...";
        break;
      }
      known += (known.empty() ? "" : ", ") + leaf;
    }
    fail<ValueError>("state dict: there is no \"{}\"; it has: {}", name,
                     known.empty() ? "nothing" : known);
  }
  return *value;
}
StateValue StateDict::at(std::string_view name) const&& { return at(name); }

const Tensor& StateDict::tensor(std::string_view name) const& {
  return get<Tensor>(*this, name, "a tensor");
}
Tensor StateDict::tensor(std::string_view name) const&& { return tensor(name); }
const StateDict& StateDict::dict(std::string_view name) const& {
  return get<StateDict>(*this, name, "a tree");
}
StateDict StateDict::dict(std::string_view name) const&& { return dict(name); }
const std::string& StateDict::text(std::string_view name) const& {
  return get<std::string>(*this, name, "a string");
}
std::string StateDict::text(std::string_view name) const&& { return text(name); }
std::int64_t StateDict::integer(std::string_view name) const {
  return get<std::int64_t>(*this, name, "an integer");
}
bool StateDict::boolean(std::string_view name) const { return get<bool>(*this, name, "a boolean"); }
double StateDict::number(std::string_view name) const {
  if (const auto* integer = at(name).get_if<std::int64_t>()) return static_cast<double>(*integer);
  return get<double>(*this, name, "a number");
}

std::vector<StateDict::Leaf> StateDict::flat() const& {
  std::vector<Leaf> leaves;
  collect(*this, "", leaves);
  return leaves;
}

const char* StateValue::kind_name() const {
  static constexpr const char* kNames[] = {"a boolean", "an integer", "a number", "a string",
                                           "bytes",     "a tensor",   "a tree",   "None"};
  return kNames[value_.index()];
}

}  // namespace facula
