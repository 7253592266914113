// Ctrl-C and SIGTERM end a training run after the current step.
#pragma once

#include <csignal>

namespace facula::train {

/// While it lives, a first SIGINT or SIGTERM is only noted. A second of either has its usual
/// effect, so that a run that hangs can be ended. The former handlers return with the destructor.
class InterruptGuard {
 public:
  explicit InterruptGuard(bool enabled);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const { return signal() != 0; }
  /// The signal, or 0.
  int signal() const;

 private:
  bool enabled_;
  struct sigaction former_int_ {
  }, former_term_{};
};

}  // namespace facula::train
