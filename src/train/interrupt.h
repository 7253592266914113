// Ctrl-C and SIGTERM end a training run after the current step.
#pragma once

#include <csignal>

namespace facula::train {

/// While it lives, a first SIGINT or SIGTERM is only noted. A second of either has its usual
/// effect, so that a run that hangs can be ended. The former handlers return when the last guard
/// of the process ends: runs in several threads stop all at one signal. A signal that was ignored
/// stays so: shells that are not interactive let their background jobs ignore SIGINT.
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

}  // namespace facula::train
