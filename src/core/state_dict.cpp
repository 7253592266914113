#include <facula/state_dict.h>

#include "base/check.h"

namespace facula {
namespace {

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

template <class Entries>
auto* find_entry(Entries& entries, std::string_view part) {
  for (auto& entry : entries) {
    if (entry.first == part) return &entry.second;
  }
  return static_cast<decltype(&entries.front().second)>(nullptr);
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

void StateDict::set(std::string_view name, StateValue value) {
  std::string_view rest = name;
  StateDict* level = this;
  while (true) {
    const std::string_view part = next_part(rest, name);
    StateValue* existing = find_entry(level->entries_, part);
    if (rest.empty()) {
      if (existing) {
        *existing = std::move(value);
      } else {
        level->entries_.emplace_back(part, std::move(value));
      }
      return;
    }
    if (!existing) existing = &level->entries_.emplace_back(part, StateDict()).second;
    level = existing->get_if<StateDict>();
    check<ValueError>(level != nullptr, "state dict: cannot set \"{}\": \"{}\" is {}, not a tree",
                      name, part, existing->kind_name());
  }
}

const StateValue* StateDict::find(std::string_view name) const {
  std::string_view rest = name;
  const StateDict* level = this;
  while (level) {
    const StateValue* value = find_entry(level->entries_, next_part(rest, name));
    if (!value || rest.empty()) return value;
    level = value->get_if<StateDict>();
  }
  return nullptr;
}

const StateValue& StateDict::at(std::string_view name) const {
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

const Tensor& StateDict::tensor(std::string_view name) const {
  return get<Tensor>(*this, name, "a tensor");
}
const StateDict& StateDict::dict(std::string_view name) const {
  return get<StateDict>(*this, name, "a tree");
}
const std::string& StateDict::text(std::string_view name) const {
  return get<std::string>(*this, name, "a string");
}
std::int64_t StateDict::integer(std::string_view name) const {
  return get<std::int64_t>(*this, name, "an integer");
}
bool StateDict::boolean(std::string_view name) const { return get<bool>(*this, name, "a boolean"); }
double StateDict::number(std::string_view name) const {
  if (const auto* integer = at(name).get_if<std::int64_t>()) return static_cast<double>(*integer);
  return get<double>(*this, name, "a number");
}

std::vector<StateDict::Leaf> StateDict::flat() const {
  std::vector<Leaf> leaves;
  collect(*this, "", leaves);
  return leaves;
}

const char* StateValue::kind_name() const {
  static constexpr const char* kNames[] = {"a boolean", "an integer", "a number", "a string",
                                           "bytes",     "a tensor",   "a tree"};
  return kNames[value_.index()];
}

}  // namespace facula
