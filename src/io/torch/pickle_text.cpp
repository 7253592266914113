#include "io/torch/pickle_text.h"

#include <charconv>

namespace facula::io {
namespace {

/// The number that the next `digits` hexadecimal digits stand for, which are cut off.
std::optional<uint32_t> take_hex(std::string_view& text, size_t digits) {
  uint32_t value = 0;
  if (text.size() < digits) return std::nullopt;
  const char* end = text.data() + digits;
  const auto [stopped, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || stopped != end) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

/// What a backslash and `letter` stand for; 0 if nothing.
char simple_escape(char letter) {
  switch (letter) {
    case '\\':
    case '\'':
    case '"': return letter;
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'a': return '\a';
    case 'b': return '\b';
    case 'f': return '\f';
    case 'v': return '\v';
    default: return 0;
  }
}

}  // namespace

std::optional<int64_t> parse_pickle_integer(std::string_view text) {
  if (text.ends_with('L')) text.remove_suffix(1);
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

std::optional<std::string> unquote_pickle_string(std::string_view text) {
  if (text.size() < 2 || text.front() != text.back()) return std::nullopt;
  if (text.front() != '\'' && text.front() != '"') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::string plain;
  while (!text.empty()) {
    const char letter = text.front();
    text.remove_prefix(1);
    if (letter != '\\') {
      plain += letter;
      continue;
    }
    if (text.empty()) return std::nullopt;
    const char escape = text.front();
    text.remove_prefix(1);
    if (const char simple = simple_escape(escape)) {
      plain += simple;
    } else if (escape == 'x') {
      const auto code = take_hex(text, 2);
      if (!code) return std::nullopt;
      plain += static_cast<char>(*code);
    } else {
      // Octal escapes are what is left that writers use: \0, \000.
      unsigned value = 0;
      if (escape < '0' || escape > '7') return std::nullopt;
      value = static_cast<unsigned>(escape - '0');
      for (int i = 0; i < 2 && !text.empty() && text[0] >= '0' && text[0] <= '7'; ++i) {
        value = value * 8 + static_cast<unsigned>(text[0] - '0');
        text.remove_prefix(1);
      }
      plain += static_cast<char>(value & 0xff);
    }
  }
  return plain;
}

std::optional<std::string> decode_pickle_unicode(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    const auto letter = static_cast<uint8_t>(text.front());
    if (text.starts_with("\\u") || text.starts_with("\\U")) {
      const size_t digits = text[1] == 'u' ? 4 : 8;
      text.remove_prefix(2);
      const auto code = take_hex(text, digits);
      if (!code) return std::nullopt;
      append_utf8(decoded, *code);
    } else {
      text.remove_prefix(1);
      append_utf8(decoded, letter);
    }
  }
  return decoded;
}

void append_utf8(std::string& text, uint32_t code) {
  if (code > 0x10ffff) code = 0xfffd;
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  const auto continuation = [&](int shift) { add(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
    continuation(0);
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    continuation(6);
    continuation(0);
  } else {
    add(0xf0 | code >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

}  // namespace facula::io
