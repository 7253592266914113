#include "io/torch/torch_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/check.h"

namespace facula::io {
namespace {

using Items = std::span<const PickleValue>;

Items arguments_of(const Pickle& pickle, const PickleValue& call) {
  return pickle.items(pickle.arguments(call));
}

/// `name` without the module of Python's built-in functions; empty if it is none of them.
std::string_view builtin_name(std::string_view name) {
  for (const std::string_view module : {"builtins.", "__builtin__."}) {
    if (name.starts_with(module)) return name.substr(module.size());
  }
  return {};
}

/// UTF-8 text of code points below 256 as the bytes that they stand for.
std::optional<Bytes> encode_latin1(std::string_view text) {
  Bytes bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x80) {
      bytes.push_back(byte);
      continue;
    }
    if ((byte != 0xc2 && byte != 0xc3) || i + 1 == text.size()) return std::nullopt;
    const auto next = static_cast<uint8_t>(text[++i]);
    if ((next & 0xc0) != 0x80) return std::nullopt;
    bytes.push_back(static_cast<uint8_t>((byte & 3) << 6 | (next & 0x3f)));
  }
  return bytes;
}

/// Bytes, or a call that makes some: protocol 2 has none and writes text to be encoded.
std::optional<Bytes> bytes_of(const Pickle& pickle, const PickleValue& value, int depth = 0) {
  constexpr int kMaxDepth = 4;
  if (value.is(PickleKind::bytes)) return Bytes(value.data().begin(), value.data().end());
  if (!value.is(PickleKind::call) || depth == kMaxDepth) return std::nullopt;
  const std::string& name = pickle.callable(value);
  const Items arguments = arguments_of(pickle, value);
  const std::string_view builtin = builtin_name(name);
  const bool is_buffer = builtin == "bytearray" || builtin == "bytes";
  if (!is_buffer && name != "_codecs.encode") return std::nullopt;
  if (arguments.empty() && is_buffer) return Bytes();
  if (arguments.size() == 1 && is_buffer) return bytes_of(pickle, arguments[0], depth + 1);
  const auto is_text = [](const PickleValue& v) { return v.is(PickleKind::text); };
  if (arguments.size() != 2 || !is_text(arguments[0]) || !is_text(arguments[1])) {
    return std::nullopt;
  }
  const std::string_view encoding = arguments[1].data();
  if (encoding != "latin1" && encoding != "latin-1") return std::nullopt;
  return encode_latin1(arguments[0].data());
}

template <class T>
T from_bytes(const Bytes& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <class Stored, class Value>
StateValue number_of(const Bytes& bytes) {
  return static_cast<Value>(from_bytes<Stored>(bytes));
}

StateValue half_of(const Bytes& bytes) {
  const Tensor half = empty({}, kFloat16);
  std::memcpy(half.raw_data(), bytes.data(), bytes.size());
  return half.item();
}

/// Beyond 63 bits as a Python integer is: its bytes in two's complement.
StateValue unsigned_of(const Bytes& bytes) {
  const auto value = from_bytes<uint64_t>(bytes);
  if (value <= INT64_MAX) return static_cast<int64_t>(value);
  Bytes wide = bytes;
  wide.push_back(0);
  return wide;
}

StateValue complex_of(double real, double imag) {
  StateDict parts;
  parts.set("real", real);
  parts.set("imag", imag);
  return parts;
}

template <class Part>
StateValue complex_of(const Bytes& bytes) {
  const auto parts = from_bytes<std::array<Part, 2>>(bytes);
  return complex_of(parts[0], parts[1]);
}

/// NumPy's numbers, in bytes of the file's order, which is little-endian.
constexpr struct {
  std::string_view dtype;
  size_t size;
  StateValue (*read)(const Bytes& bytes);
} kNumbers[] = {
    {"f8", 8, number_of<double, double>},
    {"f4", 4, number_of<float, double>},
    {"f2", 2, half_of},
    {"i8", 8, number_of<int64_t, int64_t>},
    {"i4", 4, number_of<int32_t, int64_t>},
    {"i2", 2, number_of<int16_t, int64_t>},
    {"i1", 1, number_of<int8_t, int64_t>},
    {"u8", 8, unsigned_of},
    {"u4", 4, number_of<uint32_t, int64_t>},
    {"u2", 2, number_of<uint16_t, int64_t>},
    {"u1", 1, number_of<uint8_t, int64_t>},
    {"b1", 1, number_of<uint8_t, bool>},
    {"c8", 8, complex_of<float>},
    {"c16", 16, complex_of<double>},
};

/// "[ns]", or "[25s]" of 25 seconds: the second of the last entry of a date's dtype's state.
std::string date_unit(const Pickle& pickle, const PickleValue& state) {
  constexpr size_t kFieldsOfDates = 9;
  if (!state.is(PickleKind::tuple)) return {};
  const Items fields = pickle.items(state);
  if (fields.size() != kFieldsOfDates || !fields[8].is(PickleKind::tuple)) return {};
  const Items metadata = pickle.items(fields[8]);
  if (metadata.size() != 2 || !metadata[1].is(PickleKind::tuple)) return {};
  const Items unit = pickle.items(metadata[1]);
  if (unit.size() < 2 || !unit[1].is(PickleKind::integer)) return {};
  const auto name = bytes_of(pickle, unit[0]);
  if (!name && !unit[0].is(PickleKind::text)) return {};
  const std::string text =
      name ? std::string(name->begin(), name->end()) : std::string(unit[0].data());
  return unit[1].integer == 1 ? fmt::format("[{}]", text)
                              : fmt::format("[{}{}]", unit[1].integer, text);
}

/// numpy.dtype(code, ...), whose state is (version, byte order, ...), as NumPy's arrays are told
/// of:
/// "<f4". The order of single bytes is "|".
std::optional<std::string> numpy_dtype(const Pickle& pickle, const PickleValue& call) {
  const Items arguments = arguments_of(pickle, call);
  if (arguments.empty() || !arguments[0].is(PickleKind::text)) return std::nullopt;
  std::string_view order = "<";
  if (const PickleValue& state = pickle.state(call); state.is(PickleKind::tuple)) {
    const Items fields = pickle.items(state);
    if (fields.size() < 2 || !fields[1].is(PickleKind::text)) return std::nullopt;
    order = fields[1].data();
    if (order.size() != 1) return std::nullopt;
  }
  const std::string_view code = arguments[0].data();
  if (code.starts_with('O')) return fmt::format("{}O", order);
  return fmt::format("{}{}{}", order, code, date_unit(pickle, pickle.state(call)));
}

/// numpy.core.multiarray.scalar(dtype, bytes).
std::optional<StateValue> numpy_scalar(const Pickle& pickle, const PickleValue& call,
                                       const std::string& name, const std::string& source) {
  const Items arguments = arguments_of(pickle, call);
  if (arguments.size() != 2 || !arguments[0].is(PickleKind::call)) return std::nullopt;
  if (pickle.callable(arguments[0]) != "numpy.dtype") return std::nullopt;
  const auto dtype = numpy_dtype(pickle, arguments[0]);
  if (!dtype) return std::nullopt;
  const auto* known =
      std::ranges::find_if(kNumbers, [&](const auto& it) { return dtype->substr(1) == it.dtype; });
  if (known == std::end(kNumbers) || dtype->front() == '>') {
    fail<IoError>(
        "{}: {} is a NumPy scalar of dtype {}, which Facula does not read; convert it with "
        "float(), int() or str() before saving",
        source, quote_name(name.empty() ? "value" : name), quote_name(*dtype));
  }
  const auto bytes = bytes_of(pickle, arguments[1]);
  if (!bytes || bytes->size() != known->size) return std::nullopt;
  return known->read(*bytes);
}

/// torch.device("cuda", 0) as "cuda:0".
std::optional<StateValue> device(const Pickle& pickle, const PickleValue& call) {
  const Items arguments = arguments_of(pickle, call);
  if (arguments.empty() || !arguments[0].is(PickleKind::text)) return std::nullopt;
  std::string name(arguments[0].data());
  if (arguments.size() == 1) return name;
  if (arguments.size() != 2 || !arguments[1].is(PickleKind::integer)) return std::nullopt;
  return name + ":" + std::to_string(arguments[1].integer);
}

std::optional<StateValue> complex_number(const Pickle& pickle, const PickleValue& call) {
  const Items arguments = arguments_of(pickle, call);
  if (arguments.size() != 2 || !arguments[0].is(PickleKind::number) ||
      !arguments[1].is(PickleKind::number)) {
    return std::nullopt;
  }
  return complex_of(arguments[0].number, arguments[1].number);
}

}  // namespace

void fail_arguments(const Pickle& pickle, const PickleValue& call, const std::string& source) {
  fail<IoError>(
      "{}: the pickle calls {} with arguments that it does not take; the file is damaged or "
      "malicious, refuse it",
      source, pickle.callable(call));
}

std::optional<StateValue> leaf_of_call(const Pickle& pickle, const PickleValue& call,
                                       const std::string& name, const std::string& source) {
  const std::string& function = pickle.callable(call);
  const std::string_view builtin = builtin_name(function);
  std::optional<StateValue> value;
  if (function.ends_with(".multiarray.scalar")) {
    value = numpy_scalar(pickle, call, name, source);
  } else if (function == "numpy.dtype") {
    value = numpy_dtype(pickle, call);
  } else if (function == "torch.device") {
    value = device(pickle, call);
  } else if (builtin == "complex") {
    value = complex_number(pickle, call);
  } else if (builtin == "bytes" || builtin == "bytearray" || function == "_codecs.encode") {
    if (auto bytes = bytes_of(pickle, call)) value = std::move(*bytes);
  } else {
    return std::nullopt;
  }
  if (!value) fail_arguments(pickle, call, source);
  return value;
}

std::optional<std::vector<int64_t>> sizes_of(const Pickle& pickle, const PickleValue& value,
                                             size_t max_count) {
  if (value.is(PickleKind::call)) {
    const std::string& name = pickle.callable(value);
    const Items arguments = arguments_of(pickle, value);
    const bool known = name == "torch.Size" || name == "torch.jit._pickle.build_intlist";
    if (!known || arguments.size() != 1 || arguments[0].is(PickleKind::call)) return std::nullopt;
    return sizes_of(pickle, arguments[0], max_count);
  }
  if (!value.is(PickleKind::tuple) && !value.is(PickleKind::list)) return std::nullopt;
  const Items items = pickle.items(value);
  if (items.size() > max_count) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const PickleValue& item : items) {
    if (!item.is(PickleKind::integer) || item.integer < 0) return std::nullopt;
    sizes.push_back(item.integer);
  }
  return sizes;
}

std::string name_of_key(const PickleValue& key, size_t position) {
  switch (key.kind) {
    case PickleKind::none: return "None";
    case PickleKind::boolean: return key.integer ? "True" : "False";
    case PickleKind::integer: return std::to_string(key.integer);
    case PickleKind::text: break;
    default: return fmt::format("key{}", position);
  }
  // Names are paths, whose parts are not empty.
  std::string name;
  for (const char letter : key.data()) {
    if (letter == '.' && (name.empty() || name.back() == '.')) name += '_';
    name += letter;
  }
  if (name.empty() || name.back() == '.') name += '_';
  return name;
}

}  // namespace facula::io
