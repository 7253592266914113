#include "train/interrupt.h"

#include <atomic>

namespace facula::train {
namespace {

// Signal handlers are the process's, so this cannot be a member. Lock-free
// atomics may be used in handlers, which run on any thread.
std::atomic<int> signal_seen = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  signal_seen = signal;
  // The next one of either kind kills.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigaction(SIGINT, &usual, nullptr);
  sigaction(SIGTERM, &usual, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard(bool enabled) : enabled_(enabled) {
  if (!enabled) return;
  signal_seen = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  // A second signal waits until the first has changed what it does.
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaction(SIGINT, &action, &former_int_);
  sigaction(SIGTERM, &action, &former_term_);
}

InterruptGuard::~InterruptGuard() {
  if (!enabled_) return;
  sigaction(SIGINT, &former_int_, nullptr);
  sigaction(SIGTERM, &former_term_, nullptr);
}

int InterruptGuard::signal() const { return enabled_ ? signal_seen.load() : 0; }

}  // namespace facula::train
