#include "train/interrupt.h"

#include <atomic>

namespace facula::train {
namespace {

// Signal handlers are the process's, so this cannot be a member. Lock-free
// atomics may be used in handlers, which run on any thread.
std::atomic<bool> interrupt_seen = false;
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

InterruptGuard::InterruptGuard(bool enabled) : enabled_(enabled) {
  if (!enabled) return;
  interrupt_seen = false;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_seen = true; };
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &former_);
}

InterruptGuard::~InterruptGuard() {
  if (enabled_) sigaction(SIGINT, &former_, nullptr);
}

bool InterruptGuard::interrupted() const { return enabled_ && interrupt_seen; }

}  // namespace facula::train
