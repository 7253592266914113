// Writing one-line JSON objects: metrics and the output of --json.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <facula/export.h>

namespace facula {

FACULA_API bool is_utf8(std::string_view text);
/// `text` as a JSON string with its quotes. Invalid UTF-8 is replaced by U+FFFD, so that the result
/// is always valid JSON.
FACULA_API std::string json_string(std::string_view text);

/// A JSON object (RFC 8259) on one line, built field by field in order:
///   JsonLine().add("epoch", 3).add("loss", 0.25).str() == R"({"epoch":3,"loss":0.25})"
/// Floating-point numbers have nine significant digits, enough to tell all floats apart; those that
/// are not finite become null. Keys are not checked for repetition.
class FACULA_API JsonLine {
 public:
  JsonLine& add(std::string_view key, double value);
  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, std::span<const double> values);
  JsonLine& add(std::string_view key, std::span<const int64_t> values);
  template <std::integral T>
  JsonLine& add(std::string_view key, T value) {
    if constexpr (std::same_as<T, bool>) {
      return add_raw(key, value ? "true" : "false");
    } else {
      return add_raw(key, std::to_string(value));
    }
  }

  /// The whole object, without a newline.
  std::string str() const { return "{" + fields_ + "}"; }

 private:
  JsonLine& add_raw(std::string_view key, std::string_view json);

  std::string fields_;
};

}  // namespace facula
