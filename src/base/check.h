// Argument checks that stay on in every build.
#pragma once

#include <fmt/core.h>

#include <facula/error.h>

namespace facula {

/// Throws `E` with a formatted message. Kept out of line so that checks cost one predictable branch.
template <class E, class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws `E` with the formatted message unless `ok`.
template <class E, class... Args>
inline void check(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]] fail<E>(format, std::forward<Args>(args)...);
}

}  // namespace facula
