#include "data/loader_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace facula::data {
namespace {

/// Threads that are at a piece of work now, and the most that have been.
struct Crowd {
  std::atomic<int> now{0}, most{0};
};

/// Some pieces, each of which takes a while.
struct Pieces : BackgroundJob {
  explicit Pieces(Crowd& crowd, int count = 60) : crowd_(crowd), left_(count) {}

  bool run_one() noexcept override {
    if (left_.fetch_sub(1) <= 0) return false;
    const int now = ++crowd_.now;
    for (int most = crowd_.most; most < now;) crowd_.most.compare_exchange_weak(most, now);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --crowd_.now;
    ++done_;
    return true;
  }
  bool done(int count = 60) const { return done_ == count; }

 private:
  Crowd& crowd_;
  std::atomic<int> left_, done_{0};
};

void wait_until(const auto& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), limit) << "the work is not done";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(LoaderThreads, AutomaticLoadersShareOneBudget) {
  LoaderThreads& threads = LoaderThreads::instance();
  Crowd crowd;
  // Somebody wanted many threads before, which are still there.
  const auto many = std::make_shared<Pieces>(crowd);
  threads.serve(many, 6, false);
  wait_until([&] { return many->done(); });
  threads.remove(many.get());
  EXPECT_GT(crowd.most, 3);

  crowd.most = 0;
  const auto training = std::make_shared<Pieces>(crowd);
  const auto validation = std::make_shared<Pieces>(crowd);
  threads.serve(training, 2, true);
  threads.serve(validation, 3, true);
  wait_until([&] { return training->done() && validation->done(); });
  threads.remove(training.get());
  threads.remove(validation.get());
  EXPECT_LE(crowd.most, 3);
  EXPECT_GE(crowd.most, 2);
}

}  // namespace
}  // namespace facula::data
