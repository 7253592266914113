// Programs compute in destructors of static and thread_local objects and in functions of atexit(),
// whenever these were made or registered.
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <facula/backends.h>
#include <facula/parallel.h>

#include "tests/process/everyday_work.h"

namespace facula {
namespace {

void work_or_die() {
  if (!std::isfinite(everyday_work())) ::_exit(1);
}

struct WorksInItsDestructor {
  ~WorksInItsDestructor() { work_or_die(); }
};

/// A thread in which the selector measures convolutions of ever new sizes, and for which its
/// destructor waits.
class Measuring {
 public:
  ~Measuring() {
    stop_ = true;
    thread_.join();
  }
  int rounds() const { return rounds_; }

 private:
  void run() {
    const Tensor weight = randn({16, 16, 3, 3});
    for (; !stop_; ++rounds_) {
      const std::int64_t side = 14 + rounds_ % 200;
      conv2d(randn({1, 16, side, side}).to(kChannelsLast), weight, Tensor(), {1, 1}, {1, 1});
    }
  }

  std::atomic<bool> stop_ = false;
  std::atomic<int> rounds_ = 0;
  std::thread thread_{[this] { run(); }};  // the last member: it uses the others
};

/// Every program is a process of its own, in which nothing of the library has run.
class Exit : public testing::Test {
 protected:
  Exit() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(Exit, StaticObjectsOlderThanTheLibrarysCompute) {
  EXPECT_EXIT(
      {
        static const WorksInItsDestructor before;
        work_or_die();
        static const WorksInItsDestructor after;
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(Exit, FunctionsOfAtexitCompute) {
  EXPECT_EXIT(
      {
        std::atexit(work_or_die);
        work_or_die();
        std::atexit(work_or_die);
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(Exit, TheFirstWorkOfAllMayBeAtTheEnd) {
  EXPECT_EXIT(
      {
        std::atexit(work_or_die);
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(Exit, ThreadsThatNobodyWaitsForCompute) {
  for (int program = 0; program < 5; ++program) {
    EXPECT_EXIT(
        {
          std::atomic<int> rounds = 0;
          for (int i = 0; i < 2; ++i) {
            std::thread([&] {
              for (;; ++rounds) work_or_die();
            }).detach();
          }
          while (rounds < 4) std::this_thread::yield();
          std::exit(7);
        },
        testing::ExitedWithCode(7), "");
  }
}

TEST_F(Exit, ThreadsThatAreWaitedForComeToTheirEnd) {
  for (int rounds = 3; rounds < 13; ++rounds) {
    EXPECT_EXIT(
        {
          ::alarm(60);
          set_num_threads(1);
          backends::cpu::benchmark(true, backends::cpu::Alternatives::any_rounding);
          static const Measuring measuring;
          while (measuring.rounds() < rounds) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::microseconds(300 * rounds));
          std::exit(7);
        },
        testing::ExitedWithCode(7), "");
  }
}

TEST_F(Exit, ThreadLocalObjectsComputeInTheirThreadAndTheMainOne) {
  const auto program = [] {
    thread_local const WorksInItsDestructor before;
    static_cast<void>(before);
    work_or_die();
    thread_local const WorksInItsDestructor after;
    static_cast<void>(after);
  };
  EXPECT_EXIT(
      {
        std::thread(program).join();
        program();
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace facula
