#include "base/env.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/check.h"

namespace facula::base {

VariableError::~VariableError() = default;

std::optional<std::string> env_string(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<int64_t> env_int(const char* name, int64_t min, int64_t max) {
  const std::optional<std::string> text = env_string(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  check<VariableError>(error == std::errc() && stop == end && value >= min && value <= max,
                       "{}='{}' is no integer from {} to {}; correct or unset the variable", name,
                       *text, min, max);
  return value;
}

std::optional<bool> env_bool(const char* name) {
  const std::optional<std::string> text = env_string(name);
  if (!text) return std::nullopt;
  std::string lower = *text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  constexpr std::array<std::string_view, 4> kTrue = {"1", "true", "on", "yes"};
  constexpr std::array<std::string_view, 4> kFalse = {"0", "false", "off", "no"};
  if (std::find(kTrue.begin(), kTrue.end(), lower) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), lower) != kFalse.end()) return false;
  fail<VariableError>("{}='{}' is neither on nor off; use 1, true, on, yes or 0, false, off, no",
                      name, *text);
}

}  // namespace facula::base
