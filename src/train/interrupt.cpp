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
  // The next one of either kind kills, unless it is ignored or somebody else's.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (const int each : InterruptGuard::kSignals) {
    struct sigaction current {};
    sigaction(each, nullptr, &current);
    if (current.sa_handler == note) sigaction(each, &usual, nullptr);
  }
}

}  // namespace

InterruptGuard::InterruptGuard(bool enabled) : enabled_(enabled) {
  if (!enabled) return;
  signal_seen = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  // A second signal waits until the first has changed what it does.
  for (const int signal : kSignals) sigaddset(&action.sa_mask, signal);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &former_[i]);
    if (!was_ignored(i)) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  if (!enabled_) return;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (!was_ignored(i)) sigaction(kSignals[i], &former_[i], nullptr);
  }
}

int InterruptGuard::signal() const { return enabled_ ? signal_seen.load() : 0; }

}  // namespace facula::train
