// What gives memory back when the allocator has none left.
#pragma once

#include <cstdint>
#include <functional>

namespace facula {

/// While it lives, a thread for which there is no memory calls `reclaim` before that is an error,
/// and tries again if memory_has_come_back() was called meanwhile, by whomever. Any thread that
/// allocates calls it, several at a time, holding no lock of the allocator. It may wait.
class Reclaimer {
 public:
  explicit Reclaimer(std::function<void()> reclaim);
  /// Waits for calls that have not returned.
  ~Reclaimer();
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

 private:
  friend bool reclaim_memory(std::uint64_t times);

  const std::function<void()> reclaim_;
  const int process_;
  std::uint64_t number_ = 0;  // those that began later have larger ones
  int calls_ = 0;             // going on
};

/// While it lives, its thread asks none of them: others may be waiting for what it does.
class NoReclaim {
 public:
  NoReclaim() noexcept;
  ~NoReclaim();
  NoReclaim(const NoReclaim&) = delete;
  NoReclaim& operator=(const NoReclaim&) = delete;
};

void memory_has_come_back() noexcept;
/// How often it has so far.
std::uint64_t times_memory_came_back() noexcept;

/// Calls them, the oldest first, until memory has come back since it had `times`. False if it has
/// not.
bool reclaim_memory(std::uint64_t times);

}  // namespace facula
