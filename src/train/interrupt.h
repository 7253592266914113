// Ctrl-C and SIGTERM end a training run after the current step.
#pragma once

#include <csignal>
#include <cstddef>
#include <iterator>

namespace facula::train {

/// While it lives, a first SIGINT or SIGTERM is only noted. A second of either has its usual
/// effect, so that a run that hangs can be ended. The former handlers return with the destructor.
/// A signal that was ignored stays so: shells that are not interactive let their background jobs
/// ignore SIGINT.
class InterruptGuard {
 public:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};

  explicit InterruptGuard(bool enabled);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const { return signal() != 0; }
  /// The signal, or 0.
  int signal() const;

 private:
  bool was_ignored(std::size_t i) const { return former_[i].sa_handler == SIG_IGN; }

  bool enabled_;
  struct sigaction former_[std::size(kSignals)] = {};
};

}  // namespace facula::train
