// Ctrl-C ends a training run after the current step.
#pragma once

#include <signal.h>

namespace facula::train {

/// While it lives, a first SIGINT only sets a flag. The second has its usual
/// effect, so that a run that hangs can be ended. The former handler returns
/// with the destructor.
class InterruptGuard {
 public:
  explicit InterruptGuard(bool enabled);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;

 private:
  bool enabled_;
  struct sigaction former_ {};
};

}  // namespace facula::train
