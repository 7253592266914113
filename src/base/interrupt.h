// Ctrl-C and SIGTERM end long work, such as a training run, where it may stop.
#pragma once

#include <csignal>

namespace facula::base {

/// While it lives, a first SIGINT or SIGTERM is only noted. A second of either has its usual
/// effect, so that work that hangs can be ended. The former handlers return when the last guard
/// of the process ends: work in several threads stops at one signal, all of it. A signal that was
/// ignored stays so: shells that are not interactive let their background jobs ignore SIGINT.
class InterruptGuard {
 public:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};

  explicit InterruptGuard(bool enabled);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const { return signal() != 0; }
  /// The signal that came during its life, or 0.
  int signal() const;

 private:
  bool enabled_;
  int seen_before_ = 0;
};

}  // namespace facula::base
