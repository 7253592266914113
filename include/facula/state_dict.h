// What modules, optimizers and schedulers save: an ordered tree of named values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <facula/tensor.h>

namespace facula {

class StateValue;

/// An ordered tree. Inner nodes are StateDicts; leaves are tensors, numbers, strings, bytes and
/// None. A dotted name is a path: "layer1.0.weight" is the entry "weight" of "0" of "layer1".
///
/// Copying copies the tree and shares the tensors.
class FACULA_API StateDict {
 public:
  /// An entry of the flat view. The value belongs to the tree.
  using Leaf = std::pair<std::string, const StateValue*>;

  StateDict();
  StateDict(const StateDict& other);
  StateDict(StateDict&& other) noexcept;
  StateDict& operator=(const StateDict& other);
  StateDict& operator=(StateDict&& other) noexcept;
  ~StateDict();

  /// Adds an entry at the end, or replaces the one of this name; trees on the way are made. Throws
  /// ValueError for an empty part of the name, for more than 64 parts, or where a leaf stands in
  /// the way.
  void set(std::string_view name, StateValue value);
  /// The entry `name`. Throws ValueError, naming the entries there are, if it is missing. What is
  /// asked of a dictionary without a name, as in `model.state_dict().tensor("fc.weight")`, is given
  /// by value.
  const StateValue& at(std::string_view name) const&;
  StateValue at(std::string_view name) const&&;
  /// Null if there is no such entry. The value belongs to this dictionary, which must have a name.
  const StateValue* find(std::string_view name) const&;
  void find(std::string_view name) const&& = delete;
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Shorthands for at(name) of one type; throw ValueError where the entry is of another.
  const Tensor& tensor(std::string_view name) const&;
  Tensor tensor(std::string_view name) const&&;
  const StateDict& dict(std::string_view name) const&;
  StateDict dict(std::string_view name) const&&;
  const std::string& text(std::string_view name) const&;
  std::string text(std::string_view name) const&&;
  std::int64_t integer(std::string_view name) const;
  bool boolean(std::string_view name) const;
  /// Takes integers too.
  double number(std::string_view name) const;

  /// The direct entries, in order. Like those of flat(), they are part of this dictionary, which
  /// must have a name: `for (... : model.state_dict().flat())` would read what is gone.
  const std::vector<std::pair<std::string, StateValue>>& entries() const& { return entries_; }
  void entries() const&& = delete;
  bool empty() const;
  /// All leaves with their dotted names, depth first in order. Empty trees leave no trace.
  std::vector<Leaf> flat() const&;
  void flat() const&& = delete;

 private:
  std::size_t position_of(std::string_view key) const;
  StateValue& append(std::string_view key, StateValue value);

  std::vector<std::pair<std::string, StateValue>> entries_;
  /// Where entries stand, by hash with open addressing: position + 1, or 0. Empty for few entries.
  std::vector<std::uint32_t> index_;
};

using Bytes = std::vector<std::uint8_t>;

/// One entry of a StateDict.
class FACULA_API StateValue {
 public:
  StateValue(bool value) : value_(value) {}
  StateValue(std::int64_t value) : value_(value) {}
  StateValue(int value) : value_(std::int64_t{value}) {}
  StateValue(double value) : value_(value) {}
  StateValue(std::string value) : value_(std::move(value)) {}
  StateValue(const char* value) : value_(std::string(value)) {}
  StateValue(Bytes value) : value_(std::move(value)) {}
  StateValue(Tensor value) : value_(std::move(value)) {}
  StateValue(StateDict value) : value_(std::move(value)) {}
  StateValue(NoneType value) : value_(value) {}

  /// Null unless the value is a T: bool, std::int64_t, double, std::string, Bytes, Tensor,
  /// StateDict or NoneType.
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  template <class T>
  T* get_if() {
    return std::get_if<T>(&value_);
  }
  /// "a tensor", "an integer", ... for messages.
  const char* kind_name() const;

 private:
  std::variant<bool, std::int64_t, double, std::string, Bytes, Tensor, StateDict, NoneType> value_;
};

}  // namespace facula
