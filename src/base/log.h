// Messages to standard error. FACULA_LOG sets the least level shown: debug, info (the default),
// warning, error or off.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include <facula/export.h>

namespace facula {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

/// The least level shown.
FACULA_API LogLevel log_level() noexcept;
/// Overrides FACULA_LOG.
FACULA_API void set_log_level(LogLevel level) noexcept;

namespace detail {

FACULA_API void log_write(LogLevel level, std::string_view message) noexcept;

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level >= log_level()) log_write(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace detail

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  detail::log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  detail::log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  detail::log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  detail::log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace facula
