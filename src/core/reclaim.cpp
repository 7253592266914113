#include "core/reclaim.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace facula {
namespace {

struct Registry {
  std::mutex mutex;
  std::condition_variable returned;
  std::vector<Reclaimer*> all;  // oldest first
  std::uint64_t last_number = 0;
};

Registry& registry() {
  static Registry* const all = new Registry;  // threads may allocate to the very end
  return *all;
}

std::atomic<std::uint64_t> times_back = 0;
thread_local int refusals = 0;

}  // namespace

Reclaimer::Reclaimer(std::function<void()> reclaim)
    : reclaim_(std::move(reclaim)), process_(::getpid()) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.all.push_back(this);
  number_ = ++r.last_number;
}

Reclaimer::~Reclaimer() {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  std::erase(r.all, this);
  r.returned.wait(lock, [this] { return calls_ == 0 || process_ != ::getpid(); });
}

NoReclaim::NoReclaim() noexcept { ++refusals; }

NoReclaim::~NoReclaim() { --refusals; }

std::uint64_t times_memory_came_back() noexcept { return times_back.load(); }

void memory_has_come_back() noexcept { ++times_back; }

bool reclaim_memory(std::uint64_t times) {
  if (refusals > 0) return false;
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  // The list may change during a call, so numbers tell who is next.
  std::uint64_t asked = 0;
  while (times_back == times) {
    const auto next = std::ranges::find_if(r.all, [asked](const Reclaimer* one) {
      // A child of fork() lacks the threads that would give back.
      return one->number_ > asked && one->process_ == ::getpid();
    });
    if (next == r.all.end()) return false;
    Reclaimer& one = **next;
    asked = one.number_;
    ++one.calls_;
    lock.unlock();
    one.reclaim_();
    lock.lock();
    --one.calls_;
    r.returned.notify_all();
  }
  return true;
}

}  // namespace facula
