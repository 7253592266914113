#include <facula/json_line.h>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <iterator>

namespace facula {
namespace {

/// Length of the UTF-8 character at the start of `text`, 0 if there is no valid one (RFC 3629: no
/// overlong forms, no surrogates, nothing beyond U+10FFFF).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

std::string number(double value) {
  // fmt, unlike printf, ignores the locale: a decimal comma would not be JSON.
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null";
}

template <class T, class Format>
std::string array(std::span<const T> values, Format&& format) {
  std::string json = "[";
  for (const T value : values) {
    if (json.size() > 1) json += ',';
    json += format(value);
  }
  return json + "]";
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    length = utf8_length(text);
    if (length == 0) return false;
  }
  return true;
}

std::string json_string(std::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0) {
      json += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (c == '\n') {
      json += "\\n";
    } else if (c == '\t') {
      json += "\\t";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(json), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      json += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return json + '"';
}

JsonLine& JsonLine::add(std::string_view key, double value) { return add_raw(key, number(value)); }

JsonLine& JsonLine::add(std::string_view key, std::string_view value) {
  return add_raw(key, json_string(value));
}

JsonLine& JsonLine::add(std::string_view key, std::span<const double> values) {
  return add_raw(key, array(values, number));
}

JsonLine& JsonLine::add(std::string_view key, std::span<const int64_t> values) {
  return add_raw(key, array(values, [](int64_t value) { return std::to_string(value); }));
}

JsonLine& JsonLine::add_raw(std::string_view key, std::string_view json) {
  if (!fields_.empty()) fields_ += ',';
  fields_ += json_string(key);
  fields_ += ':';
  fields_ += json;
  return *this;
}

}  // namespace facula
