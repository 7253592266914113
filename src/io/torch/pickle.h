// Python's pickles (protocols 0 to 5), read into a tree of values. A pickle is a program for a
// stack machine that may call any function of Python. This machine calls none: a call becomes a
// value that says what would have been called with what, and only for functions that the reader of
// the tree knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/bounded.h"

namespace facula::io {

enum class PickleKind : uint8_t {
  none,
  boolean,
  integer,
  big_integer,  ///< beyond 64 bits; data() is the little-endian two's complement
  number,
  text,
  bytes,
  list,
  tuple,
  set,
  dict,        ///< items() are key, value, key, value, ...
  global,      ///< a function or class, by name
  call,        ///< of a global
  persistent,  ///< what the file names by a persistent id
};
/// "a list", "None", ... for messages.
const char* name_of(PickleKind kind);

/// A handle; the Pickle knows what is in containers and calls.
struct PickleValue {
  PickleKind kind = PickleKind::none;
  uint32_t length = 0;  // of text, bytes and tuples
  union {
    int64_t integer = 0;  // and boolean
    double number;
    const char* characters;       // of text, bytes and big integers
    const PickleValue* elements;  // of a tuple; the id of what is persistent
    uint32_t index;               // of other objects and globals
  };

  bool is(PickleKind other) const { return kind == other; }
  /// Text or bytes.
  std::string_view data() const { return {characters, length}; }
};

/// Runs one pickle. Values may be shared, and containers may contain themselves: whoever walks the
/// tree limits depth and work. Nothing recurses here, neither when reading nor on destruction.
class Pickle {
 public:
  /// Whether a pickle may name "module.function".
  using Allowed = bool (*)(std::string_view name);

  /// Reads the pickle at the start of `bytes`, which must outlive this object. Throws IoError if it
  /// is damaged, names a global that is not allowed (the message says which), or would take more
  /// memory than `budget` has left, to which it is charged. `source` names the bytes in messages.
  Pickle(std::span<const uint8_t> bytes, const std::string& source, Allowed allowed,
         MemoryBudget& budget);

  const PickleValue& root() const { return root_; }
  /// How many bytes it took.
  size_t size() const { return reader_.offset(); }
  /// The names of all globals, each once.
  const std::vector<std::string>& globals() const { return globals_; }

  const std::string& global(const PickleValue& value) const { return globals_[value.index]; }
  /// Elements of a list, tuple or set; keys and values of a dict; what was added to the result of a
  /// call, as if that were a list or a dict.
  std::span<const PickleValue> items(const PickleValue& value) const {
    if (value.is(PickleKind::tuple)) return {value.elements, value.length};
    return objects_[value.index].items;
  }
  /// What is called.
  const std::string& callable(const PickleValue& call) const {
    return globals_[objects_[call.index].callable];
  }
  /// A tuple; for a persistent value its id.
  const PickleValue& arguments(const PickleValue& value) const {
    return value.is(PickleKind::persistent) ? *value.elements : objects_[value.index].arguments;
  }
  /// What the result of a call was told to be; None without.
  const PickleValue& state(const PickleValue& call) const { return objects_[call.index].state; }

 private:
  struct Object {
    std::vector<PickleValue> items;
    PickleValue arguments, state;
    uint32_t callable = 0;
  };

  void run();
  bool step(uint8_t opcode);
  bool push_constant(uint8_t opcode);
  bool push_data(uint8_t opcode);
  bool push_text_line(uint8_t opcode);
  bool build_container(uint8_t opcode);
  bool extend_container(uint8_t opcode);
  bool call(uint8_t opcode);
  bool use_memo(uint8_t opcode);

  template <class T>
  void make_room(std::vector<T>& vector, size_t count);
  void push(PickleValue value);
  void push_integer(int64_t value);
  void push_data(PickleKind kind, uint64_t length);
  void push_long(uint64_t length);
  void push_string(PickleKind kind, std::string&& text);
  PickleValue pop();
  PickleValue& top();
  /// The values above the topmost mark, which goes.
  std::vector<PickleValue> pop_to_mark();
  std::span<const PickleValue> last(size_t count) const;
  size_t count_to_mark() const;
  const PickleValue* keep(std::span<const PickleValue> values);
  void push_tuple(size_t count);
  void push_object(PickleKind kind, std::vector<PickleValue> items);
  void extend(size_t count, PickleKind target);
  void extend_by_marked(PickleKind target);
  void push_global(std::string_view module, std::string_view name);
  void push_call(const PickleValue& function, const PickleValue& arguments);
  std::string_view line();
  void remember(uint64_t place);
  void recall(uint64_t place);
  [[noreturn]] void fail_at(std::string_view problem) const;

  BoundedReader reader_;
  Allowed allowed_;
  MemoryBudget& budget_;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;
  std::deque<PickleValue> memo_;
  std::unordered_map<uint64_t, PickleValue> far_memo_;  // places that were skipped to
  std::deque<Object> objects_;
  std::vector<std::vector<PickleValue>> kept_;  // what does not change: tuples one after the other
  std::deque<std::string> strings_;             // text that was written with escapes
  std::vector<std::string> globals_;
  std::unordered_map<std::string, uint32_t> global_index_;
  PickleValue root_;
};

}  // namespace facula::io
