// What gives memory back when the allocator has none left.
#pragma once

#include <cstdint>
#include <functional>

namespace facula {

/// While it lives, a thread for which there is no memory calls `reclaim` before that is an error.
/// True says that some has come back, perhaps after a while, and the thread tries again. Any
/// thread that allocates calls it, several at a time, holding no lock of the allocator. Whoever
/// gives back calls memory_has_come_back(), too: a thread may be about to ask.
class Reclaimer {
 public:
  explicit Reclaimer(std::function<bool()> reclaim);
  /// Waits for calls that have not returned.
  ~Reclaimer();
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

 private:
  friend bool reclaim_memory(std::uint64_t times);

  const std::function<bool()> reclaim_;
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

/// How often memory has come back so far, and that it has: also nobody may have been waiting.
std::uint64_t times_memory_came_back() noexcept;
void memory_has_come_back() noexcept;

/// True if some has come back since there were `times`; else asks them, the oldest first, until one
/// has given some back.
bool reclaim_memory(std::uint64_t times);

}  // namespace facula
