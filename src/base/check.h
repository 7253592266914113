// Argument checks that stay on in every build.
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <string>
#include <string_view>

#include <facula/error.h>

/// Types with a str() method are formatted through it. Pass the object itself to check(), never
/// object.str(): a check that holds must not pay for its message.
template <class T>
requires requires(const T& value) {
  { value.str() } -> std::same_as<std::string>;
}
struct fmt::formatter<T> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const T& value, Context& context) const {
    return fmt::format_to(context.out(), "{}", value.str());
  }
};

namespace facula {

/// Throws `E` with a formatted message. Kept out of line so that checks cost one predictable
/// branch.
template <class E, class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void fail(fmt::format_string<Args...> format,
                                                 Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws `E` with the formatted message unless `ok`.
template <class E, class... Args>
inline void check(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]]
    fail<E>(format, std::forward<Args>(args)...);
}

}  // namespace facula
