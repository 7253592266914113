#include "base/signals.h"

namespace facula::base {

sigset_t block_signals(std::initializer_list<int> open) noexcept {
  sigset_t blocked, previous;
  sigfillset(&blocked);
  for (const int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&blocked, raised);
  for (const int signal : open) sigdelset(&blocked, signal);
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  return previous;
}

}  // namespace facula::base
