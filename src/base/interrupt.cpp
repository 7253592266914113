#include "base/interrupt.h"

#include <atomic>
#include <cstddef>
#include <iterator>
#include <mutex>

namespace facula::base {
namespace {

// Signal handlers are the process's, so these cannot be members. Lock-free atomics may be used in
// handlers, which run on any thread.
std::atomic<int> last_signal = 0, signals_seen = 0;
static_assert(std::atomic<int>::is_always_lock_free);

std::mutex guards_mutex;
int guards = 0, seen_when_installed = 0;
struct sigaction former[std::size(InterruptGuard::kSignals)];

bool was_ignored(std::size_t i) { return former[i].sa_handler == SIG_IGN; }

void note(int signal) {
  last_signal = signal;
  ++signals_seen;
  // The next one of either kind kills, unless it is ignored or somebody else's.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (const int each : InterruptGuard::kSignals) {
    struct sigaction current {};
    sigaction(each, nullptr, &current);
    if (current.sa_handler == note) sigaction(each, &usual, nullptr);
  }
}

void install() {
  seen_when_installed = signals_seen;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  // A second signal waits until the first has changed what it does.
  for (const int signal : InterruptGuard::kSignals) sigaddset(&action.sa_mask, signal);
  for (std::size_t i = 0; i < std::size(former); ++i) {
    // Of a guard that begins while another lives, the handlers of before are known.
    if (guards == 0) sigaction(InterruptGuard::kSignals[i], nullptr, &former[i]);
    if (!was_ignored(i)) sigaction(InterruptGuard::kSignals[i], &action, nullptr);
  }
}

void restore() {
  for (std::size_t i = 0; i < std::size(former); ++i) {
    if (!was_ignored(i)) sigaction(InterruptGuard::kSignals[i], &former[i], nullptr);
  }
}

}  // namespace

InterruptGuard::InterruptGuard(bool enabled) : enabled_(enabled) {
  if (!enabled) return;
  const std::lock_guard lock(guards_mutex);
  seen_before_ = signals_seen;
  // A signal that others have noted has its usual effect again.
  if (guards == 0 || seen_before_ != seen_when_installed) install();
  ++guards;
}

InterruptGuard::~InterruptGuard() {
  if (!enabled_) return;
  const std::lock_guard lock(guards_mutex);
  if (--guards == 0) restore();
}

int InterruptGuard::signal() const {
  return enabled_ && signals_seen != seen_before_ ? last_signal.load() : 0;
}

}  // namespace facula::base
