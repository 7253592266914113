// Random number generators.
#pragma once

#include <cstdint>

#include <facula/export.h>

namespace facula {

/// Position in a counter-based (Philox4x32-10) random stream. Every random operation reserves the
/// counters it needs in program order, so a stream can be saved, restored and replayed exactly.
/// Reserving is thread-safe; which thread gets which counters is then up to the caller's order.
class FACULA_API Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}

  std::uint64_t seed() const { return seed_; }
  std::uint64_t offset() const { return offset_; }
  /// Restarts the stream.
  void manual_seed(std::uint64_t seed) {
    seed_ = seed;
    offset_ = 0;
  }
  /// Moves to a stored position.
  void set_state(std::uint64_t seed, std::uint64_t offset) {
    seed_ = seed;
    offset_ = offset;
  }
  /// Claims `count` counters (each yields four 32-bit values) and returns the first.
  std::uint64_t reserve(std::uint64_t count) {
    return __atomic_fetch_add(&offset_, count, __ATOMIC_RELAXED);
  }

 private:
  std::uint64_t seed_;
  std::uint64_t offset_ = 0;
};

/// The process-wide generator that random operations use unless given another.
FACULA_API Generator& default_generator();
/// Seeds the default generator.
FACULA_API void manual_seed(std::uint64_t seed);

}  // namespace facula
