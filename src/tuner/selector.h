// Choosing among an op's implementations by measurement.
#pragma once

#include <facula/backends.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runtime/dispatch.h"

namespace facula::tuner {

/// Measures, when a problem first comes, the implementations that may replace the first in order
/// that takes it, and remembers the fastest. A problem is an op with its attributes and the sizes,
/// strides and dtypes of its operands.
///
/// Candidates are those that can refuse: an implementation that takes everything is a last resort.
/// They run in turn on the operands of the call, which the op must not change. The static choice is
/// replaced only by one whose median is at least 3 % shorter. Decisions are logged under
/// FACULA_VERBOSE=1.
///
/// While a thread measures, the static order holds for other problems that are new: those of other
/// threads, and of ops that the measured ones call.
class MeasuringSelector : public runtime::Selector {
 public:
  explicit MeasuringSelector(backends::cpu::Alternatives alternatives)
      : alternatives_(alternatives) {}

  std::size_t select(const std::vector<Implementation>& list, const KernelArgs& args) override;

 private:
  std::vector<std::size_t> candidates(const std::vector<Implementation>& list,
                                      const KernelArgs& args) const;

  const backends::cpu::Alternatives alternatives_;
  std::atomic_flag measuring_;
  std::mutex mutex_;  // guards known_
  std::unordered_map<std::string, std::size_t> known_;
};

}  // namespace facula::tuner
