// Locks for many objects that have no room for one each.
#pragma once

#include <pthread.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <new>

namespace facula::base {

/// One of 16 mutexes for every address; each Purpose has its own. They are not held across a
/// fork(), since others are locked under them: in the child they are new.
template <class Purpose>
std::mutex& sharded_mutex(const void* address) {
  static std::array<std::mutex, 16> mutexes;
  [[maybe_unused]] static const int at_fork = pthread_atfork(nullptr, nullptr, [] {
    for (std::mutex& mutex : mutexes) new (&mutex) std::mutex;
  });
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  return mutexes[(place >> 6 ^ place >> 10) % mutexes.size()];
}

}  // namespace facula::base
