// How much memory reading a file takes.
#pragma once

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace facula {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryCanBeMeasured = false;  // sanitizers keep what was freed
#else
constexpr bool kMemoryCanBeMeasured = true;
#endif

/// What reading any file may take.
inline std::uint64_t memory_limit(std::uint64_t file_size) {
  return 4 * file_size + (std::uint64_t{64} << 20);
}

/// The line of /proc/self/status that begins with `key`, in bytes.
inline std::uint64_t memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) * 1024;
  }
  return 0;
}

/// By how much the memory of the process grows while `action` runs, at its highest.
template <class Action>
std::uint64_t peak_growth(const Action& action) {
  ::malloc_trim(0);  // or what was freed before would be used again, unnoticed
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
  const std::uint64_t before = memory("VmRSS:");
  action();
  const std::uint64_t peak = memory("VmHWM:");
  return peak > before ? peak - before : 0;
}

/// Runs `action`, which reads a file of so many bytes.
template <class Action>
void expect_memory_within_limit(std::uint64_t file_size, const Action& action) {
  const std::uint64_t growth = peak_growth(action);
  if (kMemoryCanBeMeasured) {
    EXPECT_LE(growth, memory_limit(file_size));
  }
}

}  // namespace facula
