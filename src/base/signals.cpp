#include "base/signals.h"

#include <cerrno>

namespace facula::base {
namespace {

constexpr int kRaisedByWrites[] = {SIGPIPE, SIGXFSZ};

}  // namespace

sigset_t block_signals(std::initializer_list<int> open) noexcept {
  sigset_t blocked, previous;
  sigfillset(&blocked);
  for (const int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&blocked, raised);
  for (const int signal : open) sigdelset(&blocked, signal);
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  return previous;
}

WriteSignalsHeld::WriteSignalsHeld() noexcept {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : kRaisedByWrites) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

WriteSignalsHeld::~WriteSignalsHeld() {
  const int error = errno;
  sigset_t raised;
  sigemptyset(&raised);
  for (const int signal : kRaisedByWrites) {
    if (sigismember(&before_, signal) == 0) sigaddset(&raised, signal);
  }
  const timespec at_once{};
  while (sigtimedwait(&raised, nullptr, &at_once) > 0 || errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace facula::base
