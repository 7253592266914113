// Keeping signals away from threads.
#pragma once

#include <csignal>
#include <initializer_list>

namespace facula::base {

/// Holds back, from the calling thread, all signals but `open` and those that an instruction of its
/// own raises. Returns the mask as it was.
sigset_t block_signals(std::initializer_list<int> open = {}) noexcept;

/// Holds them back while it lives, if `hold`.
class SignalsHeld {
 public:
  explicit SignalsHeld(bool hold) : hold_(hold) {
    if (hold) before_ = block_signals();
  }
  ~SignalsHeld() {
    if (hold_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  bool hold_;
  sigset_t before_;
};

/// Holds SIGPIPE and SIGXFSZ back from the calling thread while it lives: the system raises them
/// where nobody reads a pipe any more or a file reaches the limit on sizes, and they would end the
/// program before the error of the write could tell.
class WriteSignalsHeld {
 public:
  WriteSignalsHeld() noexcept;
  /// Takes those that writes have raised, unless the program holds them back itself.
  ~WriteSignalsHeld();
  WriteSignalsHeld(const WriteSignalsHeld&) = delete;
  WriteSignalsHeld& operator=(const WriteSignalsHeld&) = delete;

 private:
  sigset_t before_;
};

}  // namespace facula::base
