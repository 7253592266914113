// Values as the oldest pickles write them: one a line, as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace facula::io {

/// Decimal, with an L at the end or without; nothing if it is something else or beyond 64 bits.
std::optional<int64_t> parse_pickle_integer(std::string_view text);

/// A string literal in quotes with Python's escapes; nothing if it is something else.
std::optional<std::string> unquote_pickle_string(std::string_view text);

/// Python's raw-unicode-escape (Latin-1 with \uXXXX and \UXXXXXXXX) as UTF-8; nothing if an escape
/// is wrong.
std::optional<std::string> decode_pickle_unicode(std::string_view text);

/// Appends a code point, one beyond Unicode as U+FFFD.
void append_utf8(std::string& text, uint32_t code);

}  // namespace facula::io
