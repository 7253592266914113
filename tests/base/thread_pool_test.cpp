#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <facula/error.h>

namespace facula::base {
namespace {

using namespace std::chrono_literals;

class ThreadPool : public ::testing::Test {
 protected:
  void TearDown() override {
    set_thread_init(nullptr);
    set_num_threads(before_);
  }

 private:
  int before_ = get_num_threads();
};

TEST_F(ThreadPool, EverySliceRunsExactlyOnce) {
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    for (int64_t slices : {0, 1, 2, 7, 64, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(slices));
      parallel_for(slices, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
      for (auto& count : runs) ASSERT_EQ(count, 1) << threads << " threads, " << slices;
    }
  }
}

TEST_F(ThreadPool, NegativeSliceCountsRunNothing) {
  parallel_for(-3, [](int64_t) { FAIL(); });
}

TEST_F(ThreadPool, ResultsWrittenByWorkersAreVisibleToTheCaller) {
  set_num_threads(4);
  for (int repeat = 0; repeat < 300; ++repeat) {
    std::vector<int64_t> squares(50, -1);
    parallel_for(50, [&](int64_t i) { squares[static_cast<size_t>(i)] = i * i; });
    for (int64_t i = 0; i < 50; ++i) ASSERT_EQ(squares[static_cast<size_t>(i)], i * i);
  }
}

TEST_F(ThreadPool, WorkersTakePart) {
  set_num_threads(2);
  // Each of two slices waits for the other to begin: only two threads can finish this.
  std::atomic<int> begun{0};
  parallel_for(2, [&](int64_t) {
    ++begun;
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (begun < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_EQ(begun, 2);
}

TEST_F(ThreadPool, ThreadsBeginWithConsecutiveSlicesAndTakeWhatOthersLeave) {
  set_num_threads(2);
  std::vector<std::thread::id> ran(8);
  std::atomic<int> begun{0}, done{0};
  const auto wait_for = [](const std::atomic<int>& count, int wanted) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (count < wanted && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  };
  parallel_for(8, [&](int64_t slice) {
    ran[static_cast<size_t>(slice)] = std::this_thread::get_id();
    ++begun;
    wait_for(begun, 2);
    if (slice == 4) wait_for(done, 7);  // the second share, but for its first slice, is left
    ++done;
  });
  EXPECT_EQ(ran[0], std::this_thread::get_id());
  EXPECT_NE(ran[4], ran[0]);
  for (size_t slice : {1, 2, 3, 5, 6, 7}) EXPECT_EQ(ran[slice], ran[0]) << slice;
}

TEST_F(ThreadPool, SleepingWorkersWakeUp) {
  set_num_threads(4);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(1ms);  // longer than they spin
    std::mutex mutex;
    std::set<std::thread::id> ids;
    std::atomic<int> begun{0};
    parallel_for(4, [&](int64_t) {
      ++begun;
      const auto deadline = std::chrono::steady_clock::now() + 30s;
      while (begun < 4 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
    ASSERT_EQ(ids.size(), 4u);
  }
}

TEST_F(ThreadPool, NestedCallsRunInlineOnTheSameThread) {
  set_num_threads(4);
  std::atomic<int> inner{0};
  parallel_for(8, [&](int64_t) {
    EXPECT_TRUE(in_parallel_region());
    const auto outer_id = std::this_thread::get_id();
    parallel_for(5, [&](int64_t) {
      ++inner;
      EXPECT_EQ(std::this_thread::get_id(), outer_id);
    });
  });
  EXPECT_EQ(inner, 40);
  EXPECT_FALSE(in_parallel_region());
}

TEST_F(ThreadPool, ASecondUserThreadRunsInlineWhileThePoolIsBusy) {
  set_num_threads(2);
  std::atomic<bool> inside{false};
  std::atomic<bool> done{false};
  std::thread second([&] {
    while (!inside) std::this_thread::yield();
    const auto id = std::this_thread::get_id();
    parallel_for(10, [&](int64_t) { EXPECT_EQ(std::this_thread::get_id(), id); });
    done = true;
  });
  parallel_for(2, [&](int64_t) {
    inside = true;
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!done && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  second.join();
  EXPECT_TRUE(done);
}

TEST_F(ThreadPool, ManyUserThreadsAtOnce) {
  set_num_threads(3);
  std::vector<std::thread> users;
  std::atomic<int64_t> total{0};
  for (int u = 0; u < 4; ++u) {
    users.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        std::atomic<int64_t> sum{0};
        parallel_for(20, [&](int64_t i) { sum += i; });
        ASSERT_EQ(sum, 190);
        total += sum;
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(total, 4 * 200 * 190);
}

TEST_F(ThreadPool, FirstExceptionIsRethrownAndTheRestAbandoned) {
  for (int threads : {1, 2, 8}) {
    set_num_threads(threads);
    std::atomic<int64_t> runs{0};
    try {
      parallel_for(1'000'000, [&](int64_t i) {
        ++runs;
        if (i == 10) throw ShapeError("slice 10");
      });
      FAIL() << "no exception with " << threads << " threads";
    } catch (const ShapeError& error) {
      EXPECT_STREQ(error.what(), "slice 10");
    }
    EXPECT_LT(runs, 1'000'000);
    std::atomic<int> count{0};  // the pool still works, and remembers no error
    EXPECT_NO_THROW(parallel_for(100, [&](int64_t) { ++count; }));
    EXPECT_EQ(count, 100);
  }
}

TEST_F(ThreadPool, ExceptionsOfEverySliceAtOnce) {
  set_num_threads(4);
  for (int repeat = 0; repeat < 50; ++repeat) {
    EXPECT_THROW(parallel_for(8, [](int64_t i) { throw std::runtime_error(std::to_string(i)); }),
                 std::runtime_error);
  }
}

TEST_F(ThreadPool, ThreadInitRunsOnceInEveryWorkerAndNotInTheCaller) {
  static std::atomic<int> inits;
  static thread_local bool here;
  inits = 0;
  set_num_threads(3);
  set_thread_init([] {
    ++inits;
    here = true;
  });
  for (int repeat = 0; repeat < 10; ++repeat) {
    std::atomic<int> begun{0};
    parallel_for(3, [&](int64_t) {
      ++begun;
      const auto deadline = std::chrono::steady_clock::now() + 30s;
      while (begun < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    });
  }
  EXPECT_EQ(inits, 2);
  EXPECT_FALSE(here);
}

// Bodies may be waiting for what it is going to do.
TEST_F(ThreadPool, BackgroundThreadsBeginWhileAJobRuns) {
  set_num_threads(2);
  std::atomic<bool> begun{false};
  std::thread background;
  parallel_for(2, [&](int64_t i) {
    if (i != 0) return;
    background = std::thread([&] {
      become_background_thread("test");
      begun = true;
    });
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!begun && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(begun);
  });
  background.join();
}

TEST_F(ThreadPool, NumberOfThreadsIsValidated) {
  EXPECT_THROW(set_num_threads(0), ValueError);
  EXPECT_THROW(set_num_threads(-1), ValueError);
  EXPECT_THROW(set_num_threads(1 << 20), ValueError);
  set_num_threads(5);
  EXPECT_EQ(get_num_threads(), 5);
  EXPECT_THROW(parallel_for(4, [](int64_t) { set_num_threads(2); }), ValueError);
  EXPECT_EQ(get_num_threads(), 5);
}

TEST_F(ThreadPool, FixedSlicesGiveTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> values(100'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f / static_cast<float>(i + 1);
  const auto sum = [&] {
    std::vector<float> partial(16);
    parallel_for(16, [&](int64_t s) {
      const auto begin = values.begin() + s * 6250;
      partial[static_cast<size_t>(s)] = std::accumulate(begin, begin + 6250, 0.0f);
    });
    return std::accumulate(partial.begin(), partial.end(), 0.0f);
  };
  set_num_threads(1);
  const float reference = sum();
  for (int threads : {2, 3, 8}) {
    set_num_threads(threads);
    for (int repeat = 0; repeat < 20; ++repeat) ASSERT_EQ(sum(), reference);
  }
}

#if !defined(__SANITIZE_THREAD__)  // which refuses threads in the child of a threaded process
TEST_F(ThreadPool, WorksInTheChildOfAFork) {
  set_num_threads(3);
  std::atomic<int> count{0};
  parallel_for(30, [&](int64_t) { ++count; });
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> begun{0};
    parallel_for(3, [&](int64_t) {  // ends only if two new workers come
      ++begun;
      while (begun < 3) std::this_thread::yield();
    });
    _exit(begun == 3 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  parallel_for(30, [&](int64_t) { ++count; });
  EXPECT_EQ(count, 60);
}

TEST(ThreadPoolExitTest, ExitInsideABodyDoesNotHang) {
  EXPECT_EXIT(
      {
        set_num_threads(4);
        parallel_for(100, [](int64_t i) {
          if (i == 50) std::exit(3);
        });
      },
      ::testing::ExitedWithCode(3), "");
}

TEST(ThreadPoolExitTest, ExitWhileAnotherThreadComputesDoesNotHang) {
  EXPECT_EXIT(
      {
        set_num_threads(3);
        static std::atomic<bool> inside{false};
        std::thread([] {
          parallel_for(1'000'000, [](int64_t) {
            inside = true;
            std::this_thread::sleep_for(1ms);
          });
        }).detach();
        while (!inside) std::this_thread::yield();
        std::exit(4);
      },
      ::testing::ExitedWithCode(4), "");
}

struct ComputesInItsDestructor {
  ~ComputesInItsDestructor() {
    std::atomic<int> count{0};
    parallel_for(9, [&](int64_t) { ++count; });
    set_num_threads(2);
    if (count != 9) _exit(1);
  }
};

TEST(ThreadPoolExitTest, DestructorsOfStaticObjectsMayStillCompute) {
  EXPECT_EXIT(
      {
        static ComputesInItsDestructor object;
        set_num_threads(3);
        std::exit(5);
      },
      ::testing::ExitedWithCode(5), "");
}
#endif

}  // namespace
}  // namespace facula::base
