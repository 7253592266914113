// What random ops have in common: the stream position they take as an input.
#pragma once

#include <cstdint>
#include <vector>

#include <facula/generator.h>
#include <facula/tensor.h>

namespace facula {

/// Reserves the counters for `numel` values of `dtype` and returns {seed, offset} as an int64 [2]
/// tensor. Null: the default generator.
Tensor reserve_random(Generator* generator, std::int64_t numel, DType dtype);

/// Positions that a thread reserved, in order.
struct RandomLog {
  struct Entry {
    std::uint64_t seed, offset, count;
  };
  std::vector<Entry> entries;
  bool complete = false;  ///< what wrote it is done
};

/// While it lives, what this thread reserves is written into a log, or comes from it once more, so
/// that generators, which other threads may use, stay where they are. Scopes nest.
class RandomLogScope {
 public:
  enum class Mode { record, replay };
  RandomLogScope(RandomLog& log, Mode mode);
  ~RandomLogScope();
  RandomLogScope(const RandomLogScope&) = delete;
  RandomLogScope& operator=(const RandomLogScope&) = delete;

  /// For `count` counters in `scope`, null outside of all.
  static RandomLog::Entry reserve(RandomLogScope* scope, Generator& source, std::uint64_t count);

 private:
  RandomLog& log_;
  Mode mode_;
  std::size_t next_ = 0;
  RandomLogScope* outer_;
};

/// Checks such a tensor.
void check_random_state(const Tensor& state, const char* op);

}  // namespace facula
