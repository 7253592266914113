#include "io/state_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <facula/json_line.h>

#include "base/check.h"
#include "io/bounded.h"

// Why no JSON library: a handler of its events would be as long as the reader below, and the one
// that reads headers of safetensors costs two seconds of compilation in every file that includes
// it.

namespace facula::io {
namespace {

constexpr int kMaxDepth = 64;

/// What an entry takes in memory, at most, besides what grows with its text.
constexpr std::size_t kEntryBytes = 240;

/// What all entries may take. Names and tensors justify their entries by their own length; the rest
/// is for large trees of small values.
constexpr std::size_t memory_for(std::size_t text) { return (std::size_t{32} << 20) + 3 * text; }

constexpr std::string_view kTensorKey = ".tensor", kBytesKey = ".bytes", kTextKey = ".text",
                           kNumberKey = ".number";

using TensorText = FunctionRef<std::string(const std::string& name, const Tensor& tensor)>;
using TensorOf = FunctionRef<Tensor(const std::string& name, const std::string& text)>;

// --- Characters ----------------------------------------------------------------------------------

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
    add(0x80 | (code & 0x3f));
  } else {
    add(0xe0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  }
}

std::string to_hex(const void* data, std::size_t size) {
  std::string hex;
  hex.reserve(2 * size);
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  for (std::size_t i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[bytes[i] >> 4];
    hex += "0123456789abcdef"[bytes[i] & 15];
  }
  return hex;
}

std::optional<std::uint32_t> from_hex(std::string_view digits) {
  std::uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// --- Reading -------------------------------------------------------------------------------------

class Parser {
 public:
  Parser(std::string_view json, const std::string& source, TensorOf tensor)
      : json_(json), source_(source), tensor_(tensor), budget_(memory_for(json.size()), source) {}

  StateDict document() {
    StateValue value = object("", 1);
    skip_space();
    if (at_ != json_.size()) refuse("the end of the text");
    auto* tree = value.get_if<StateDict>();
    if (!tree) refuse("a tree at the top");
    return std::move(*tree);
  }

  std::string string() {
    expect('"');
    std::string text;
    while (true) {
      const char c = take("a closing quote");
      if (c == '"') return text;
      if (static_cast<std::uint8_t>(c) < 0x20) refuse("no control character in a string");
      if (c == '\\') {
        escape(text);
      } else {
        text += c;
      }
    }
  }

 private:
  [[noreturn]] void refuse(std::string_view expected) const {
    fail<IoError>("{}: the saved state is damaged: expected {} near byte {} of its JSON text",
                  source_, expected, at_);
  }

  void skip_space() {
    while (at_ < json_.size() && std::string_view(" \t\r\n").find(json_[at_]) != json_.npos) ++at_;
  }

  /// The next character that is no space, or 0.
  char peek() {
    skip_space();
    return at_ < json_.size() ? json_[at_] : '\0';
  }

  char take(std::string_view expected) {
    if (at_ == json_.size()) refuse(expected);
    return json_[at_++];
  }

  void expect(char wanted) {
    if (peek() != wanted || at_ == json_.size()) refuse(std::string{'\'', wanted, '\''});
    ++at_;
  }

  void escape(std::string& text) {
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char c = take("an escaped character");
    if (c == 'u') {
      const auto code = from_hex(json_.substr(at_, 4));
      const bool surrogate = code && *code >= 0xd800 && *code < 0xe000;
      if (!code || surrogate || json_.size() - at_ < 4) refuse("four digits of a character");
      at_ += 4;
      append_utf8(text, *code);
      return;
    }
    const std::size_t place = kEscapes.find(c);
    if (place == kEscapes.npos) refuse("an escaped character");
    text += kMeanings[place];
  }

  StateValue object(const std::string& name, int depth) {
    if (depth > kMaxDepth) refuse("at most 64 levels");
    expect('{');
    StateDict tree;
    if (peek() == '}') {
      ++at_;
      return tree;
    }
    while (true) {
      skip_space();
      const std::string key = string();
      expect(':');
      if (key.starts_with('.')) {
        if (!tree.empty() || name.empty()) refuse("a name");
        StateValue value = special(key, name);
        expect('}');
        return value;
      }
      if (key.empty() || key.find('.') != key.npos) refuse("a name");
      const std::size_t entries = tree.entries().size();
      budget_.charge(kEntryBytes);
      tree.set(key, value(name.empty() ? key : fmt::format("{}.{}", name, key), depth));
      if (tree.entries().size() == entries) refuse("a new name");
      if (peek() == '}') {
        ++at_;
        return tree;
      }
      expect(',');
    }
  }

  StateValue value(const std::string& name, int depth) {
    switch (peek()) {
      case '{': return object(name, depth + 1);
      case '"': return string();
      case 't': return literal("true", true);
      case 'f': return literal("false", false);
      case 'n': return literal("null", None);
      default: return number();
    }
  }

  StateValue literal(std::string_view word, StateValue meaning) {
    if (json_.substr(at_, word.size()) != word) refuse("a value");
    at_ += word.size();
    return meaning;
  }

  StateValue number() {
    const std::size_t end = std::min(json_.find_first_not_of("+-.0123456789eE", at_), json_.size());
    const std::string_view digits = json_.substr(at_, end - at_);
    const auto read = [&](auto value) -> StateValue {
      const auto [rest, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error != std::errc() || rest != digits.data() + digits.size()) refuse("a value");
      at_ = end;
      return value;
    };
    const bool integer = digits.find_first_of(".eE") == digits.npos;
    return integer ? read(std::int64_t{0}) : read(0.0);
  }

  StateValue special(const std::string& key, const std::string& name) {
    skip_space();
    const std::string text = string();
    if (key == kTensorKey) return tensor_(name, text);
    if (key == kNumberKey) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      if (text == "nan") return std::nan("");
      if (text == "inf") return kInfinity;
      if (text == "-inf") return -kInfinity;
      refuse("nan, inf or -inf");
    }
    if (key != kBytesKey && key != kTextKey) refuse("a known kind of value");
    Bytes bytes;
    for (std::size_t i = 0; i < text.size(); i += 2) {
      const auto byte = from_hex(std::string_view(text).substr(i, 2));
      if (!byte || i + 1 == text.size()) refuse("pairs of hexadecimal digits");
      bytes.push_back(static_cast<std::uint8_t>(*byte));
    }
    if (key == kBytesKey) return bytes;
    return std::string(bytes.begin(), bytes.end());
  }

  const std::string_view json_;
  const std::string& source_;
  const TensorOf tensor_;
  std::size_t at_ = 0;
  MemoryBudget budget_;
};

// --- Writing -------------------------------------------------------------------------------------

std::string special(std::string_view key, std::string_view text) {
  return fmt::format("{{\"{}\":\"{}\"}}", key, text);
}

std::string number_json(double value) {
  if (!std::isfinite(value)) {
    return special(kNumberKey, std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  }
  std::string digits = fmt::format("{}", value);
  if (digits.find_first_of(".e") == digits.npos) digits += ".0";
  return digits;
}

std::string text_json(const std::string& text) {
  return is_utf8(text) ? json_string(text) : special(kTextKey, to_hex(text.data(), text.size()));
}

/// Returns how many entries it wrote.
std::size_t write_tree(std::string& json, const StateDict& tree, const std::string& prefix,
                       int depth, TensorText tensor_text) {
  check<ValueError>(depth < kMaxDepth, "checkpoint: {} has {} levels or more; flatten it",
                    quote_name(prefix), kMaxDepth);
  std::size_t entries = tree.entries().size();
  json += '{';
  for (const auto& [key, value] : tree.entries()) {
    const std::string name = prefix + key;
    const std::string quoted = json_string(key);
    check<ValueError>(is_utf8(key), "checkpoint: the name {} is not UTF-8; choose another",
                      quote_name(name));
    json += (json.back() == '{' ? "" : ",") + quoted + ":";
    if (const auto* inner = value.get_if<StateDict>()) {
      entries += write_tree(json, *inner, name + ".", depth + 1, tensor_text);
    } else if (const auto* tensor = value.get_if<Tensor>()) {
      check<ValueError>(tensor->defined(), "checkpoint: {} is an undefined tensor; leave it out",
                        quote_name(name));
      json += special(kTensorKey, tensor_text(name, *tensor));
    } else if (const auto* flag = value.get_if<bool>()) {
      json += *flag ? "true" : "false";
    } else if (const auto* integer = value.get_if<std::int64_t>()) {
      json += std::to_string(*integer);
    } else if (const auto* real = value.get_if<double>()) {
      json += number_json(*real);
    } else if (const auto* text = value.get_if<std::string>()) {
      json += text_json(*text);
    } else if (const auto* bytes = value.get_if<Bytes>()) {
      json += special(kBytesKey, to_hex(bytes->data(), bytes->size()));
    } else {
      json += "null";
    }
  }
  json += '}';
  return entries;
}

}  // namespace

std::string format_state_json(const StateDict& state, TensorText tensor) {
  std::string json;
  const std::size_t entries = write_tree(json, state, "", 1, tensor);
  check<ValueError>(entries * kEntryBytes <= memory_for(json.size()),
                    "checkpoint: {} entries are too many; keep large tables in tensors", entries);
  return json;
}

StateDict parse_state_json(std::string_view json, const std::string& source, TensorOf tensor) {
  return Parser(json, source, tensor).document();
}

}  // namespace facula::io
