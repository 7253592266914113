#include "core/free_list.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <facula/memory.h>
#include <facula/parallel.h>

#include "base/thread_pool.h"

namespace facula {
namespace {

struct Block {
  void* memory;
  size_t bytes;
};

int64_t slabs() { return cpu::memory_stats().system_allocations; }

TEST(FreeList, SizeClasses) {
  using detail::small_class;
  using detail::small_class_bytes;
  EXPECT_EQ(small_class(0), 0);
  for (int c = 0; c < detail::kSmallClasses; ++c) {
    EXPECT_EQ(small_class(small_class_bytes(c)), c);
    EXPECT_EQ(small_class(small_class_bytes(c) / 2 + 1), c);
  }
  EXPECT_EQ(small_class_bytes(detail::kSmallClasses - 1), kSmallBlockLimit);
}

TEST(FreeList, BlocksAreAlignedDistinctAndWritable) {
  std::vector<Block> blocks;
  std::set<void*> seen;
  for (size_t bytes : {0, 1, 64, 65, 200, 1024, 2049, 4096}) {
    for (int i = 0; i < 100; ++i) {
      void* memory = small_allocate(bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
      EXPECT_TRUE(seen.insert(memory).second);
      std::memset(memory, i, bytes);
      blocks.push_back({memory, bytes});
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i].memory);
    for (size_t b = 0; b < blocks[i].bytes; ++b) ASSERT_EQ(bytes[b], i % 100);
    small_free(blocks[i].memory, blocks[i].bytes);
  }
}

TEST(FreeList, LastFreedIsFirstReused) {
  void* a = small_allocate(100);
  small_free(a, 100);
  void* b = small_allocate(128);
  EXPECT_EQ(a, b);
  small_free(b, 128);
}

TEST(FreeList, AccountsForLiveBytes) {
  const int64_t before = small_block_stats().allocated_bytes;
  const int64_t allocations = small_block_stats().allocations;
  void* a = small_allocate(65);
  void* b = small_allocate(4000);
  EXPECT_EQ(small_block_stats().allocated_bytes, before + 128 + 4096);
  EXPECT_EQ(small_block_stats().allocations, allocations + 2);
  small_free(a, 65);
  EXPECT_EQ(small_block_stats().allocated_bytes, before + 4096);
  small_free(b, 4000);
  EXPECT_EQ(small_block_stats().allocated_bytes, before);
}

TEST(FreeList, ManyBlocksComeBackWithoutNewMemory) {
  const int64_t before = small_block_stats().allocated_bytes;
  std::vector<void*> blocks(20'000);
  const auto cycle = [&] {
    for (void*& block : blocks) block = small_allocate(256);
    for (void* block : blocks) small_free(block, 256);
  };
  cycle();
  const int64_t after_first = slabs();
  for (int repeat = 0; repeat < 3; ++repeat) cycle();
  EXPECT_EQ(slabs(), after_first);
  EXPECT_EQ(small_block_stats().allocated_bytes, before);
}

TEST(FreeList, ProducerAndConsumerThreadsReuseTheSameMemory) {
  const int64_t before = small_block_stats().allocated_bytes;
  std::mutex mutex;
  std::vector<void*> queue;
  std::atomic<bool> done{false};
  constexpr size_t kBound = 500;
  std::thread consumer([&] {
    for (;;) {
      const bool last = done;
      std::vector<void*> taken;
      {
        const std::lock_guard lock(mutex);
        taken.swap(queue);
      }
      for (void* block : taken) small_free(block, 512);
      if (last && taken.empty()) return;
    }
  });
  const int64_t slabs_before = slabs();
  for (int i = 0; i < 100'000;) {
    void* block = small_allocate(512);
    std::memset(block, 1, 512);
    for (;;) {
      const std::lock_guard lock(mutex);
      if (queue.size() < kBound) {
        queue.push_back(block);
        break;
      }
    }
    ++i;
  }
  done = true;
  consumer.join();
  // 100,000 blocks are 800 slabs; in use or on their way are two batches of `kBound`, and two
  // magazines of 128 blocks in either thread.
  EXPECT_LE(slabs() - slabs_before, 2 * kBound / 128 + 6);
  EXPECT_EQ(small_block_stats().allocated_bytes, before);
}

TEST(FreeList, EndedThreadsLeaveTheirBlocksToOthers) {
  const auto work = [] {
    std::vector<void*> blocks;
    for (int i = 0; i < 100; ++i) blocks.push_back(small_allocate(1024));
    for (void* block : blocks) small_free(block, 1024);
  };
  std::thread(work).join();
  const int64_t before = slabs();
  for (int i = 0; i < 20; ++i) std::thread(work).join();
  EXPECT_EQ(slabs(), before);
}

/// Calls body(i) on each of `threads` threads.
void on_each(int threads, const std::function<void(int64_t)>& body) {
  std::atomic<int> arrived{0};
  base::parallel_for(threads, [&](int64_t i) {
    body(i);
    for (++arrived; arrived < threads;) std::this_thread::yield();
  });
}

TEST(FreeList, ThreadsOfALoopHaveBlocksOfAllSizesSinceTheirFirst) {
  const int threads_before = get_num_threads();
  std::vector<Block> held;  // what lies ready for any thread
  for (size_t bytes = 64; bytes <= kSmallBlockLimit; bytes *= 2) {
    const int64_t before = slabs();
    while (slabs() == before) held.push_back({small_allocate(bytes), bytes});
  }
  // Some threads are new: first with those that allocate, then with those that free.
  std::vector<void*> given(11);
  for (void*& block : given) block = small_allocate(128);
  const std::function<void(int64_t)> first_uses[] = {
      [](int64_t) { small_free(small_allocate(64), 64); },
      [&](int64_t i) { small_free(std::exchange(given[static_cast<size_t>(i)], nullptr), 128); }};
  const cpu::MemoryStats before = cpu::memory_stats();
  for (const int threads : {7, 11}) {
    set_num_threads(threads);
    on_each(threads, first_uses[threads == 11]);
    const int64_t slabs_before = slabs();
    on_each(threads, [](int64_t) {
      for (size_t bytes = 64; bytes <= kSmallBlockLimit; bytes *= 2) {
        small_free(small_allocate(bytes), bytes);
      }
    });
    EXPECT_EQ(slabs(), slabs_before) << threads << " threads";
  }
  const cpu::MemoryStats after = cpu::memory_stats();
  EXPECT_GE(after.cache_hits, before.cache_hits);
  EXPECT_LE(after.cache_hits - before.cache_hits, after.allocations - before.allocations);
  for (const Block& block : held) small_free(block.memory, block.bytes);
  set_num_threads(threads_before);
}

// Its destructor runs after that of the thread's lists, which it precedes in construction.
struct LateUser {
  void* block = nullptr;
  ~LateUser() {
    if (block == nullptr) return;
    small_free(block, 300);
    small_free(small_allocate(300), 300);
  }
};

TEST(FreeList, SurvivesUseInLateThreadLocalDestructors) {
  const int64_t before = small_block_stats().allocated_bytes;
  for (int i = 0; i < 5; ++i) {
    std::thread([] {
      thread_local LateUser user;
      user.block = nullptr;
      user.block = small_allocate(300);
    }).join();
  }
  EXPECT_EQ(small_block_stats().allocated_bytes, before);
}

#ifdef FACULA_ASAN
TEST(FreeListDeathTest, AddressSanitizerSeesMisuse) {
  EXPECT_DEATH(
      {
        auto* block = static_cast<volatile char*>(small_allocate(100));
        small_free(const_cast<char*>(block), 100);
        block[50] = 1;
      },
      "use-after-poison");
  EXPECT_DEATH(
      {
        auto* block = static_cast<volatile char*>(small_allocate(100));
        block[104] = 1;
      },
      "use-after-poison");
}
#endif

}  // namespace
}  // namespace facula
