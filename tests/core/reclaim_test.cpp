#include "core/reclaim.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <facula/error.h>
#include <facula/memory.h>

#include "core/host_allocator.h"
#include "tests/support/memory_cap.h"

namespace facula {
namespace {

constexpr size_t kBlock = size_t{8} << 20;

/// Room for one block.
class ReclaimTest : public ::testing::Test {
 protected:
  ReclaimTest() { set_host_memory_cap(cpu::memory_reserved() + int64_t{kBlock} + (1 << 20)); }

 private:
  RestoreMemoryCap cap_;
};

TEST_F(ReclaimTest, AllocationsTryAgainWhenSomeHasComeBack) {
  void* held = host_allocate(kBlock);
  int asked = 0;
  const Reclaimer useless([&asked] { ++asked; });
  EXPECT_THROW(host_allocate(kBlock), OutOfMemory);
  EXPECT_EQ(asked, 1);
  const Reclaimer useful([&held] {
    if (!held) return;
    host_free(std::exchange(held, nullptr), kBlock);
    memory_has_come_back();
  });
  void* const block = host_allocate(kBlock);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(held, nullptr);
  EXPECT_THROW(scratch_allocate(kBlock), OutOfMemory);
  EXPECT_EQ(asked, 3);
  host_free(block, kBlock);
}

TEST_F(ReclaimTest, SmallBlocksAskAsWell) {
  std::vector<void*> blocks;
  int asked = 0;
  const Reclaimer some([&asked] {
    if (++asked <= 2) memory_has_come_back();
  });
  const auto fill = [&] {
    for (size_t i = 0; i < 2 * kBlock; i += kSmallBlockLimit) {
      blocks.push_back(host_allocate(kSmallBlockLimit));
    }
  };
  EXPECT_THROW(fill(), OutOfMemory);
  EXPECT_EQ(asked, 3);
  for (void* block : blocks) host_free(block, kSmallBlockLimit);
}

TEST_F(ReclaimTest, ThreadsThatOthersWaitForDoNotAsk) {
  void* const held = host_allocate(kBlock);
  int asked = 0;
  const Reclaimer some([&asked] {
    if (++asked < 10) memory_has_come_back();
  });
  {
    const NoReclaim outer;
    { const NoReclaim inner; }
    EXPECT_THROW(host_allocate(kBlock), OutOfMemory);
  }
  EXPECT_EQ(asked, 0);
  EXPECT_THROW(host_allocate(kBlock), OutOfMemory);
  EXPECT_EQ(asked, 10);
  host_free(held, kBlock);
}

// None is called when it has ended, however many threads are asking.
TEST_F(ReclaimTest, TheyComeAndGoWhileThreadsAsk) {
  void* const held = host_allocate(kBlock);
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!over) {
        try {
          host_allocate(kBlock);
        } catch (const OutOfMemory&) {
        }
      }
    });
  }
  int calls = 0;
  for (int i = 0; i < 50 || calls == 0; ++i) {
    auto alive = std::make_unique<std::atomic<bool>>(true);
    std::atomic<int> called = 0;
    {
      const Reclaimer first([&] { ++called; });
      const Reclaimer second([&] {
        ++called;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        EXPECT_TRUE(*alive);
      });
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    *alive = false;
    calls += called;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  host_free(held, kBlock);
}

}  // namespace
}  // namespace facula
