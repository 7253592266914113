// Programs compute in destructors of static and thread_local objects and in functions of atexit(),
// whenever these were made or registered.
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/process/everyday_work.h"

namespace facula {
namespace {

void work_or_die() {
  if (!std::isfinite(everyday_work())) ::_exit(1);
}

struct WorksInItsDestructor {
  ~WorksInItsDestructor() { work_or_die(); }
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
