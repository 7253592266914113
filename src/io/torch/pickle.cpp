#include "io/torch/pickle.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "io/bounded.h"
#include "io/torch/pickle_text.h"

namespace facula::io {
namespace {

/// Opcodes, as Python's pickletools.py names them.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kObj = 'o',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

constexpr uint8_t kNewestProtocol = 5;
// What a heap block, and an entry of a hash table, take beside the content.
constexpr uint64_t kBlockCost = 32;
constexpr uint64_t kEntryCost = 96;

}  // namespace

const char* name_of(PickleKind kind) {
  constexpr const char* kNames[] = {"None",       "a boolean",
                                    "an integer", "a large integer",
                                    "a number",   "text",
                                    "bytes",      "a list",
                                    "a tuple",    "a set",
                                    "a dict",     "a function or class",
                                    "a call",     "a persistent object"};
  return kNames[static_cast<int>(kind)];
}

Pickle::Pickle(std::span<const uint8_t> bytes, const std::string& source, Allowed allowed,
               MemoryBudget& budget)
    : reader_(bytes, source), allowed_(allowed), budget_(budget) {
  run();
  // Only what the values refer to stays.
  stack_ = {};
  memo_ = {};
  far_memo_ = {};
}

void Pickle::fail_at(std::string_view problem) const {
  fail<IoError>(
      "{}: the pickle {} near byte {}; the file is damaged or of another format, check it",
      reader_.source(), problem, reader_.offset());
}

void Pickle::run() {
  while (step(reader_.u8("an opcode of the pickle"))) {
  }
  if (stack_.size() != 1 || !marks_.empty()) fail_at("ends without exactly one value");
  root_ = stack_.back();
}

bool Pickle::step(uint8_t opcode) {
  switch (opcode) {
    case kStop: return false;
    case kProto:
      if (reader_.u8("the protocol") > kNewestProtocol) fail_at("has an unknown protocol");
      return true;
    case kFrame: reader_.skip(8, "a frame"); return true;
    case kMark:
      make_room(marks_, 1);
      marks_.push_back(stack_.size());
      return true;
    case kPop:
      // As in Python, a mark is popped like a value.
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return true;
    case kPopMark: pop_to_mark(); return true;
    case kDup: push(top()); return true;
    default:
      if (!push_constant(opcode) && !push_data(opcode) && !push_text_line(opcode) &&
          !build_container(opcode) && !extend_container(opcode) && !call(opcode) &&
          !use_memo(opcode)) {
        fail_at(fmt::format("has the opcode {:#04x}, which model files do not need,", opcode));
      }
      return true;
  }
}

// --- The stack -----------------------------------------------------------------------------------

/// Makes room for `count` more elements. The old ones are still there while they are copied, and
/// what they leave behind is too small for the next growth, so they stay charged.
template <class T>
void Pickle::make_room(std::vector<T>& vector, size_t count) {
  const size_t needed = vector.size() + count;
  if (needed <= vector.capacity()) return;
  const size_t capacity = std::max(needed, 2 * vector.capacity());
  budget_.charge(capacity * sizeof(T));
  vector.reserve(capacity);
}

void Pickle::push(PickleValue value) {
  make_room(stack_, 1);
  stack_.push_back(value);
}

PickleValue& Pickle::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
    fail_at("takes a value that is not there");
  return stack_.back();
}

PickleValue Pickle::pop() {
  const PickleValue value = top();
  stack_.pop_back();
  return value;
}

std::span<const PickleValue> Pickle::last(size_t count) const {
  if (stack_.size() - (marks_.empty() ? 0 : marks_.back()) < count) {
    fail_at("takes values that are not there");
  }
  return std::span(stack_).last(count);
}

size_t Pickle::count_to_mark() const {
  if (marks_.empty()) fail_at("goes back to a mark that is not there");
  return stack_.size() - marks_.back();
}

std::vector<PickleValue> Pickle::pop_to_mark() {
  const auto values = last(count_to_mark());
  std::vector<PickleValue> popped(values.begin(), values.end());
  stack_.resize(stack_.size() - popped.size());
  marks_.pop_back();
  return popped;
}

// --- Values --------------------------------------------------------------------------------------

void Pickle::push_integer(int64_t value) { push({.kind = PickleKind::integer, .integer = value}); }

bool Pickle::push_constant(uint8_t opcode) {
  switch (opcode) {
    case kNone: push({}); return true;
    case kNewTrue: push({.kind = PickleKind::boolean, .integer = 1}); return true;
    case kNewFalse: push({.kind = PickleKind::boolean, .integer = 0}); return true;
    case kBinInt: push_integer(static_cast<int32_t>(reader_.u32_le("an integer"))); return true;
    case kBinInt1: push_integer(reader_.u8("an integer")); return true;
    case kBinInt2: push_integer(reader_.u16_le("an integer")); return true;
    case kLong1: push_long(reader_.u8("an integer")); return true;
    case kLong4: push_long(reader_.u32_le("an integer")); return true;
    case kBinFloat: {
      const auto bits = reader_.u64_be("a number");
      push({.kind = PickleKind::number, .number = std::bit_cast<double>(bits)});
      return true;
    }
    default: return false;
  }
}

/// An integer of `length` bytes, two's complement.
void Pickle::push_long(uint64_t length) {
  const auto bytes = reader_.take(length, "an integer");
  if (length > 8) {
    push({.kind = PickleKind::big_integer,
          .length = static_cast<uint32_t>(length),
          .characters = reinterpret_cast<const char*>(bytes.data())});
    return;
  }
  uint64_t value = length > 0 && (bytes[length - 1] & 0x80) ? ~uint64_t{0} : 0;
  for (size_t i = length; i-- > 0;) value = value << 8 | bytes[i];
  push_integer(static_cast<int64_t>(value));
}

void Pickle::push_data(PickleKind kind, uint64_t length) {
  if (length > std::numeric_limits<uint32_t>::max()) fail_at("has text of more than 4 GiB");
  const auto data = reader_.take(length, "text");
  push({.kind = kind,
        .length = static_cast<uint32_t>(length),
        .characters = reinterpret_cast<const char*>(data.data())});
}

bool Pickle::push_data(uint8_t opcode) {
  constexpr std::string_view what = "the length of text";
  switch (opcode) {
    // Python 2's strings may be either; torch.save means text.
    case kBinString:
    case kBinUnicode: push_data(PickleKind::text, reader_.u32_le(what)); return true;
    case kShortBinString:
    case kShortBinUnicode: push_data(PickleKind::text, reader_.u8(what)); return true;
    case kBinUnicode8: push_data(PickleKind::text, reader_.u64_le(what)); return true;
    case kBinBytes: push_data(PickleKind::bytes, reader_.u32_le(what)); return true;
    case kShortBinBytes: push_data(PickleKind::bytes, reader_.u8(what)); return true;
    case kBinBytes8:
    case kByteArray8: push_data(PickleKind::bytes, reader_.u64_le(what)); return true;
    default: return false;
  }
}

std::string_view Pickle::line() {
  const auto rest = reader_.at(reader_.offset(), reader_.remaining(), "a line");
  const auto end = std::find(rest.begin(), rest.end(), '\n');
  if (end == rest.end()) fail_at("ends within a line");
  const auto length = static_cast<size_t>(end - rest.begin());
  reader_.skip(length + 1, "a line");
  return {reinterpret_cast<const char*>(rest.data()), length};
}

void Pickle::push_string(PickleKind kind, std::string&& text) {
  if (text.size() > std::numeric_limits<uint32_t>::max()) fail_at("has text of more than 4 GiB");
  budget_.charge(sizeof(std::string) + text.capacity());
  const std::string& kept = strings_.emplace_back(std::move(text));
  push({.kind = kind, .length = static_cast<uint32_t>(kept.size()), .characters = kept.data()});
}

bool Pickle::push_text_line(uint8_t opcode) {
  switch (opcode) {
    case kInt:
    case kLong: {
      const std::string_view text = line();
      if (opcode == kInt && (text == "00" || text == "01")) {
        push({.kind = PickleKind::boolean, .integer = text == "01"});
        return true;
      }
      const auto value = parse_pickle_integer(text);
      if (!value) fail_at("has an integer that cannot be read");
      push_integer(*value);
      return true;
    }
    case kFloat: {
      const std::string_view text = line();
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size()) {
        fail_at("has a number that cannot be read");
      }
      push({.kind = PickleKind::number, .number = value});
      return true;
    }
    case kString: {
      auto text = unquote_pickle_string(line());
      if (!text) fail_at("has a string that cannot be read");
      push_string(PickleKind::text, std::move(*text));
      return true;
    }
    case kUnicode: {
      auto text = decode_pickle_unicode(line());
      if (!text) fail_at("has text that cannot be read");
      push_string(PickleKind::text, std::move(*text));
      return true;
    }
    default: return false;
  }
}

// --- Containers ----------------------------------------------------------------------------------

/// Copies values to where they stay.
const PickleValue* Pickle::keep(std::span<const PickleValue> values) {
  constexpr size_t kBlock = 512;
  if (values.empty()) return nullptr;
  if (kept_.empty() || kept_.back().capacity() - kept_.back().size() < values.size()) {
    const size_t capacity = std::max(kBlock, values.size());
    budget_.charge(kBlockCost + capacity * sizeof(PickleValue));
    kept_.emplace_back().reserve(capacity);
  }
  auto& block = kept_.back();
  return &*block.insert(block.end(), values.begin(), values.end());
}

void Pickle::push_tuple(size_t count) {
  if (count > std::numeric_limits<uint32_t>::max()) fail_at("has a tuple of more than 4 Gi values");
  const PickleValue tuple = {.kind = PickleKind::tuple,
                             .length = static_cast<uint32_t>(count),
                             .elements = keep(last(count))};
  stack_.resize(stack_.size() - count);
  push(tuple);
}

void Pickle::push_object(PickleKind kind, std::vector<PickleValue> items) {
  if (!items.empty()) budget_.charge(kBlockCost + items.capacity() * sizeof(PickleValue));
  budget_.charge(sizeof(Object));
  objects_.emplace_back().items = std::move(items);
  push({.kind = kind, .index = static_cast<uint32_t>(objects_.size() - 1)});
}

bool Pickle::build_container(uint8_t opcode) {
  switch (opcode) {
    case kEmptyList: push_object(PickleKind::list, {}); return true;
    case kEmptyTuple: push_tuple(0); return true;
    case kEmptyDict: push_object(PickleKind::dict, {}); return true;
    case kEmptySet: push_object(PickleKind::set, {}); return true;
    case kList: push_object(PickleKind::list, pop_to_mark()); return true;
    case kTuple:
      push_tuple(count_to_mark());
      marks_.pop_back();
      return true;
    case kFrozenSet: push_object(PickleKind::set, pop_to_mark()); return true;
    case kTuple1: push_tuple(1); return true;
    case kTuple2: push_tuple(2); return true;
    case kTuple3: push_tuple(3); return true;
    case kDict: {
      auto items = pop_to_mark();
      if (items.size() % 2 != 0) fail_at("has a key without a value");
      push_object(PickleKind::dict, std::move(items));
      return true;
    }
    default: return false;
  }
}

/// Moves the last `count` values into the container below them, a `target` or the result of a call.
void Pickle::extend(size_t count, PickleKind target) {
  const auto values = last(count + 1);
  const PickleValue& container = values.front();
  if (!container.is(target) && !container.is(PickleKind::call)) {
    fail_at(fmt::format("adds to {} as if it were {},", name_of(container.kind), name_of(target)));
  }
  if (target == PickleKind::dict && count % 2 != 0) fail_at("has a key without a value");
  auto& existing = objects_[container.index].items;
  make_room(existing, count);
  existing.insert(existing.end(), values.begin() + 1, values.end());
  stack_.resize(stack_.size() - count);
}

void Pickle::extend_by_marked(PickleKind target) {
  const size_t count = count_to_mark();
  marks_.pop_back();
  extend(count, target);
}

bool Pickle::extend_container(uint8_t opcode) {
  switch (opcode) {
    case kAppend: extend(1, PickleKind::list); return true;
    case kAppends: extend_by_marked(PickleKind::list); return true;
    case kSetItem: extend(2, PickleKind::dict); return true;
    case kSetItems: extend_by_marked(PickleKind::dict); return true;
    case kAddItems: extend_by_marked(PickleKind::set); return true;
    default: return false;
  }
}

// --- Calls that are not made ---------------------------------------------------------------------

void Pickle::push_global(std::string_view module, std::string_view name) {
  constexpr size_t kLongest = 1000;
  const std::string whole =
      fmt::format("{}.{}", module.substr(0, kLongest), name.substr(0, kLongest));
  check<IoError>(
      module.size() <= kLongest && name.size() <= kLongest && allowed_(whole),
      "{}: refuses to call {}: the pickle in this file names it, and it is not among the "
      "functions and classes that tensors and containers are made of; if you trust its author, "
      "load it in Python and save its state_dict alone, else do not open it anywhere",
      reader_.source(), quote_name(whole));
  const auto [found, added] =
      global_index_.try_emplace(whole, static_cast<uint32_t>(globals_.size()));
  if (added) {
    budget_.charge(kEntryCost + 2 * whole.size());
    globals_.push_back(whole);
  }
  push({.kind = PickleKind::global, .index = found->second});
}

void Pickle::push_call(const PickleValue& function, const PickleValue& arguments) {
  if (!function.is(PickleKind::global)) {
    fail_at(fmt::format("calls {}", name_of(function.kind)));
  }
  if (!arguments.is(PickleKind::tuple)) {
    fail_at(
        fmt::format("calls {} with {} for arguments", global(function), name_of(arguments.kind)));
  }
  push_object(PickleKind::call, {});
  objects_.back().callable = function.index;
  objects_.back().arguments = arguments;
}

bool Pickle::call(uint8_t opcode) {
  switch (opcode) {
    case kGlobal: {
      const std::string_view module = line(), name = line();
      push_global(module, name);
      return true;
    }
    case kStackGlobal: {
      const PickleValue name = pop(), module = pop();
      if (!name.is(PickleKind::text) || !module.is(PickleKind::text)) {
        fail_at("names a function by something that is not text");
      }
      push_global(module.data(), name.data());
      return true;
    }
    case kReduce:
    case kNewObj: {
      const PickleValue arguments = pop(), function = pop();
      push_call(function, arguments);
      return true;
    }
    case kInst: {
      const std::string_view module = line(), name = line();
      push_tuple(count_to_mark());
      marks_.pop_back();
      const PickleValue arguments = pop();
      push_global(module, name);
      push_call(pop(), arguments);
      return true;
    }
    case kObj: {
      if (count_to_mark() == 0) fail_at("calls nothing");
      push_tuple(count_to_mark() - 1);
      const PickleValue arguments = pop(), function = pop();
      marks_.pop_back();
      push_call(function, arguments);
      return true;
    }
    case kBuild: {
      const PickleValue state = pop();
      if (!top().is(PickleKind::call)) {
        fail_at(fmt::format("sets the state of {}", name_of(top().kind)));
      }
      objects_[top().index].state = state;
      return true;
    }
    case kBinPersId: {
      const PickleValue id = pop();
      push({.kind = PickleKind::persistent, .elements = keep({&id, 1})});
      return true;
    }
    default: return false;
  }
}

// --- The memo ------------------------------------------------------------------------------------

void Pickle::remember(uint64_t place) {
  constexpr size_t kGap = 16;
  const PickleValue value = top();
  if (place < memo_.size()) {
    memo_[place] = value;
  } else if (place < memo_.size() + kGap) {
    budget_.charge((place + 1 - memo_.size()) * sizeof(PickleValue));
    memo_.resize(place + 1);
    memo_[place] = value;
  } else {
    budget_.charge(kEntryCost);
    far_memo_[place] = value;
  }
}

void Pickle::recall(uint64_t place) {
  const auto far = far_memo_.find(place);
  if (far == far_memo_.end() && place >= memo_.size()) {
    fail_at(fmt::format("recalls value {}, which was not remembered,", place));
  }
  push(far == far_memo_.end() ? memo_[place] : far->second);
}

bool Pickle::use_memo(uint8_t opcode) {
  constexpr std::string_view what = "a place of the memo";
  switch (opcode) {
    case kBinPut: remember(reader_.u8(what)); return true;
    case kLongBinPut: remember(reader_.u32_le(what)); return true;
    case kMemoize: remember(memo_.size()); return true;
    case kBinGet: recall(reader_.u8(what)); return true;
    case kLongBinGet: recall(reader_.u32_le(what)); return true;
    case kPut:
    case kGet: {
      const auto place = parse_pickle_integer(line());
      if (!place || *place < 0) fail_at("has a place of the memo that cannot be read");
      opcode == kPut ? remember(static_cast<uint64_t>(*place))
                     : recall(static_cast<uint64_t>(*place));
      return true;
    }
    default: return false;
  }
}

}  // namespace facula::io
