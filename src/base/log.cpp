#include "base/log.h"

#include <pthread.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "base/env.h"
#include "base/signals.h"

namespace facula {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warning", "error",
                                                         "off"};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: break;
  }
  return spdlog::level::off;
}

// Never destroyed: destructors of other static objects may still log.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_st>();
    auto* created = new spdlog::logger("facula", std::move(sink));
    created->set_pattern("[%H:%M:%S.%e] [%n] [%l] %v");
    created->set_level(spdlog::level::trace);  // the filter is log_level()
    created->flush_on(spdlog::level::trace);
    return created;
  }();
  return *instance;
}

// A wrong FACULA_LOG is reported and does not throw: logging must not fail the work it tells about.
LogLevel level_from_env() {
  const auto name = base::env_string("FACULA_LOG");
  if (!name) return LogLevel::kInfo;
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (*name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  const base::WriteSignalsHeld held;
  logger().warn("FACULA_LOG='{}' is unknown and ignored; use debug, info, warning, error or off",
                *name);
  return LogLevel::kInfo;
}

std::atomic<LogLevel>& level() {
  static std::atomic<LogLevel> value{level_from_env()};
  return value;
}

/// Held by whoever writes.
constinit std::mutex writing;

/// A child of fork() must not find it locked by a thread that it lacks, nor the level being set by
/// one: fork() waits for whoever writes a message. Before all other handlers, so that it is locked
/// after the mutexes under which somebody may log.
[[gnu::constructor(101)]] void hold_across_fork() {
  const auto before = [] {
    level();
    writing.lock();
  };
  pthread_atfork(
      before, [] { writing.unlock(); }, [] { writing.unlock(); });
}

}  // namespace

LogLevel log_level() noexcept { return level().load(std::memory_order_relaxed); }

void set_log_level(LogLevel new_level) noexcept {
  level().store(new_level, std::memory_order_relaxed);
}

namespace detail {

void log_write(LogLevel message_level, std::string_view message) noexcept {
  const std::lock_guard lock(writing);
  const base::WriteSignalsHeld held;  // work goes on where nobody can be told of it
  logger().log(to_spdlog(message_level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace detail
}  // namespace facula
