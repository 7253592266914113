#include "backends/cpu/caches.h"

#include <algorithm>
#include <atomic>

#include "base/cpu_info.h"

namespace facula::cpu {
namespace {

/// The last-level cache that one CPU can count on, at most. Servers report hundreds of MiB, which
/// all of their cores share, to virtual machines of two. Far away it is worth less.
constexpr std::int64_t kBytesPerCpu = 16 << 20, kFarBytesPerCpu = 12 << 20;
constexpr std::int64_t kFewestBytes = 8 << 20;

/// Intel's clients since 2022 have it, too, before a nearer last level; not measured there.
constexpr std::int64_t kLargeSecondLevel = 2 << 20;

/// What tests say instead, or 0.
std::atomic<std::int64_t> told_bytes{0};

std::atomic<bool>& far_flag() {
  static std::atomic<bool> far{base::cache_sizes().l2 >= kLargeSecondLevel};
  return far;
}

}  // namespace

bool far_last_level() { return far_flag().load(std::memory_order_relaxed); }
void far_last_level(bool far) { far_flag().store(far, std::memory_order_relaxed); }

std::int64_t most_cached_bytes() {
  if (const std::int64_t told = told_bytes.load(std::memory_order_relaxed)) return told;
  const std::int64_t per_cpu = far_last_level() ? kFarBytesPerCpu : kBytesPerCpu;
  return std::max(std::min(base::cache_sizes().l3, base::usable_cpus() * per_cpu), kFewestBytes);
}

void most_cached_bytes(std::int64_t bytes) { told_bytes.store(bytes, std::memory_order_relaxed); }

std::int64_t most_near_bytes() {
  return far_last_level() ? base::usable_cpus() * base::cache_sizes().l2 : most_cached_bytes();
}

bool worth_asking(std::int64_t bytes) { return far_last_level() && bytes > most_near_bytes(); }

}  // namespace facula::cpu
