#include "core/host_allocator.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <facula/error.h>
#include <facula/parallel.h>

#include "base/cpu_info.h"
#include "base/thread_pool.h"
#include "tests/support/memory_cap.h"

namespace facula {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class HostAllocator : public ::testing::Test {
  RestoreMemoryCap cap_;
};

TEST_F(HostAllocator, AlignsByBlockSize) {
  for (size_t bytes : {size_t{1}, size_t{4096}, size_t{4097}, size_t{100'000}, kMiB, 2 * kMiB,
                       3 * kMiB + 1, 4 * kMiB, 9 * kMiB + 5}) {
    void* block = host_allocate(bytes);
    const size_t alignment = bytes >= 4 * kMiB ? 2 * kMiB : bytes >= 2 * kMiB ? 4096 : 64;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << bytes;
    std::memset(block, 7, bytes);
    host_free(block, bytes);
  }
}

TEST_F(HostAllocator, ZeroBytesAndNullAreFine) {
  void* block = host_allocate(0);
  EXPECT_NE(block, nullptr);
  host_free(block, 0);
  host_free(nullptr, 0);
  host_free(nullptr, 10 * kMiB);
}

TEST_F(HostAllocator, WasteIsBoundedInEveryClass) {
  for (size_t bytes = 4097; bytes < 200 * kMiB; bytes += bytes / 7 + 1) {
    const int64_t before = cpu::memory_allocated();
    void* block = host_allocate(bytes);
    const int64_t used = cpu::memory_allocated() - before;
    EXPECT_GE(used, static_cast<int64_t>(bytes));
    EXPECT_LE(static_cast<double>(used),
              static_cast<double>(bytes) * (bytes > kMiB ? 1.125 : 1.25));
    host_free(block, bytes);
    cpu::empty_cache();
  }
}

TEST_F(HostAllocator, ReusesBlocksOfTheSameClass) {
  void* block = host_allocate(5 * kMiB);
  host_free(block, 5 * kMiB);
  const cpu::MemoryStats before = cpu::memory_stats();
  void* again = host_allocate(5 * kMiB - 1000);
  EXPECT_EQ(again, block);
  const cpu::MemoryStats after = cpu::memory_stats();
  EXPECT_EQ(after.cache_hits, before.cache_hits + 1);
  EXPECT_EQ(after.allocations, before.allocations + 1);
  EXPECT_EQ(after.system_allocations, before.system_allocations);
  EXPECT_EQ(after.reserved_bytes, before.reserved_bytes);
  host_free(again, 5 * kMiB - 1000);
}

TEST_F(HostAllocator, EmptyCacheReturnsEverythingUnused) {
  const int64_t reserved = cpu::memory_reserved();
  void* used = host_allocate(kMiB);
  void* cached = host_allocate(8 * kMiB);
  host_free(cached, 8 * kMiB);
  EXPECT_EQ(cpu::memory_reserved(), reserved + static_cast<int64_t>(9 * kMiB));
  cpu::empty_cache();
  EXPECT_EQ(cpu::memory_reserved(), reserved + static_cast<int64_t>(kMiB));
  host_free(used, kMiB);
}

TEST_F(HostAllocator, PeaksFollowAndReset) {
  cpu::reset_peak_memory_stats();
  const int64_t base = cpu::max_memory_allocated();
  void* a = host_allocate(8 * kMiB);
  void* b = host_allocate(16 * kMiB);
  host_free(b, 16 * kMiB);
  EXPECT_EQ(cpu::max_memory_allocated(), base + static_cast<int64_t>(24 * kMiB));
  cpu::reset_peak_memory_stats();
  EXPECT_EQ(cpu::max_memory_allocated(), base + static_cast<int64_t>(8 * kMiB));
  EXPECT_EQ(cpu::memory_stats().peak_reserved_bytes, cpu::memory_reserved());
  host_free(a, 8 * kMiB);
}

TEST_F(HostAllocator, CapReleasesLeastRecentlyUsedFirst) {
  // Odd sizes are neither cut nor joined.
  void* blocks[3] = {host_allocate(5 * kMiB), host_allocate(7 * kMiB), host_allocate(11 * kMiB)};
  host_free(blocks[1], 7 * kMiB);  // oldest
  host_free(blocks[2], 11 * kMiB);
  host_free(blocks[0], 5 * kMiB);
  set_host_memory_cap(cpu::memory_reserved() + static_cast<int64_t>(2 * kMiB));
  void* large = host_allocate(9 * kMiB);  // needs 7 MiB back
  const int64_t hits = cpu::memory_stats().cache_hits;
  void* a = host_allocate(11 * kMiB);
  void* b = host_allocate(5 * kMiB);
  EXPECT_EQ(cpu::memory_stats().cache_hits, hits + 2) << "the younger blocks stayed";
  EXPECT_EQ(cpu::memory_reserved(), host_memory_cap());
  host_free(a, 11 * kMiB);
  host_free(b, 5 * kMiB);
  host_free(large, 9 * kMiB);
}

TEST_F(HostAllocator, OutOfMemoryTellsTheFiguresAndTheRemedy) {
  void* used = host_allocate(16 * kMiB);
  void* cached = host_allocate(4 * kMiB);
  host_free(cached, 4 * kMiB);
  set_host_memory_cap(cpu::memory_reserved() + static_cast<int64_t>(kMiB));
  try {
    host_allocate(64 * kMiB);
    FAIL();
  } catch (const OutOfMemory& error) {
    const std::string message = error.what();
    for (const char* part : {"64.0 MiB (67108864 bytes)", "In use:", "cached: 0 bytes",
                             "cap:", "FACULA_HOST_MEMORY_CAP"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
  // What was cached has been given back, so a request that fits without it succeeds.
  void* small = host_allocate(5 * kMiB);
  host_free(small, 5 * kMiB);
  host_free(used, 16 * kMiB);
}

TEST_F(HostAllocator, ImpossibleSizesAreErrors) {
  EXPECT_THROW(host_allocate(static_cast<size_t>(-1)), ValueError);
  EXPECT_THROW(host_allocate(static_cast<size_t>(-4096)), ValueError);
  EXPECT_THROW(host_allocate(size_t{1} << 63), ValueError);
  EXPECT_THROW(host_allocate((size_t{1} << 63) - 1), OutOfMemory);
  EXPECT_THROW(host_allocate((size_t{1} << 47) + 1), OutOfMemory);
  EXPECT_THROW(host_allocate(size_t{1} << 47), OutOfMemory);
}

TEST_F(HostAllocator, CapMustBePositive) {
  EXPECT_THROW(set_host_memory_cap(0), ValueError);
  EXPECT_THROW(set_host_memory_cap(-1), ValueError);
}

/// Ends a process in which the allocator has not been used.
void tell_cap_with(const char* variable) {
  unsetenv("FACULA_HOST_MEMORY_CAP");
  if (variable) setenv("FACULA_HOST_MEMORY_CAP", variable, 1);
  std::cerr << "cap " << host_memory_cap() << " bytes";
  std::exit(0);
}

TEST(HostMemoryCap, IsTheVariablesOrMostOfWhatTheProcessMayUse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(tell_cap_with("123"), ::testing::ExitedWithCode(0), "cap 128974848 bytes");
  const int64_t usable = std::min(base::physical_memory_bytes(),
                                  base::read_cgroup_limits().memory_bytes.value_or(INT64_MAX));
  const std::string most = "cap " + std::to_string(usable / 10 * 8) + " bytes";
  EXPECT_EXIT(tell_cap_with(nullptr), ::testing::ExitedWithCode(0), most);
}

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST_F(HostAllocator, SteadyStateHasNoPageFaults) {
  const std::vector<size_t> sizes = {100, 5000, 70'000, 900'000, kMiB, 3 * kMiB, 8 * kMiB};
  const auto step = [&] {
    std::vector<void*> blocks;
    for (size_t bytes : sizes) {
      blocks.push_back(host_allocate(bytes));
      std::memset(blocks.back(), 1, bytes);
    }
    for (size_t i = 0; i < sizes.size(); ++i) host_free(blocks[i], sizes[i]);
  };
  for (int i = 0; i < 3; ++i) step();
  const long before = page_faults();
  for (int i = 0; i < 20; ++i) step();
  // 13 MiB a step are 3300 pages; the few left over are the test program's own.
  EXPECT_LT(page_faults() - before, 60);
}

// Kernels fill temporary memory to different lengths.
TEST_F(HostAllocator, BlocksBelowHugePagesComeWithTheirPages) {
  for (const size_t bytes : {896 * 1024ul, 3 * kMiB}) {
    auto* const block = static_cast<std::byte*>(host_allocate(bytes));
    std::byte* const page = block - reinterpret_cast<uintptr_t>(block) % 4096;
    std::vector<unsigned char> resident((block + bytes - page + 4095) / 4096);
    ASSERT_EQ(mincore(page, static_cast<size_t>(block + bytes - page), resident.data()), 0);
    EXPECT_TRUE(std::ranges::all_of(resident, [](unsigned char page) { return page & 1; }))
        << bytes;
    host_free(block, bytes);
  }
}

/// The flags of the mapping that an address lies in, as the kernel tells them.
std::string mapping_flags(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream(line) >> std::hex >> begin >> dash >> end && dash == '-') {
      found = begin <= at && at < end;
    }
    if (found && line.starts_with("VmFlags:")) return line + ' ';
  }
  return "";
}

TEST_F(HostAllocator, BlocksFrom4MiBOnAskForHugePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) {
    GTEST_SKIP() << "the kernel has no transparent huge pages";
  }
  for (const size_t bytes : {4 * kMiB, 9 * kMiB}) {
    void* const block = host_allocate(bytes);
    EXPECT_NE(mapping_flags(block).find(" hg "), std::string::npos) << mapping_flags(block);
    host_free(block, bytes);
  }
}

// Also several blocks of one size at a time.
TEST_F(HostAllocator, OneThreadOfALoopProvidesScratchMemoryForAll) {
  const int threads_before = get_num_threads();
  set_num_threads(2);
  const std::vector<size_t> sizes = {5000, 50'000, 3 * kMiB, 49'000, 50'000};
  std::atomic<int> arrived{0};
  const auto use_all = [&](int users) {
    std::vector<void*> blocks;
    for (const size_t bytes : sizes) {
      blocks.push_back(scratch_allocate(bytes));
      std::memset(blocks.back(), 1, bytes);
    }
    for (++arrived; arrived < users;) std::this_thread::yield();
    for (size_t i = sizes.size(); i-- > 0;) scratch_free(blocks[i], sizes[i]);
  };
  const auto used_before = cpu::memory_stats().allocated_bytes;
  base::parallel_for(2, [&](int64_t slice) {
    if (slice == 0) use_all(1);
  });
  const cpu::MemoryStats alone = cpu::memory_stats();
  arrived = 0;
  base::parallel_for(2, [&](int64_t) { use_all(2); });
  const cpu::MemoryStats together = cpu::memory_stats();
  EXPECT_EQ(together.system_allocations, alone.system_allocations);
  EXPECT_EQ(together.allocations - alone.allocations, std::ssize(sizes) * 2);
  EXPECT_EQ(together.allocated_bytes, used_before);
  set_num_threads(threads_before);
}

// It is still in the cache of the thread's core.
TEST_F(HostAllocator, ThreadsOfALoopGetTheirOwnScratchMemoryAgain) {
  const int threads_before = get_num_threads();
  set_num_threads(2);
  constexpr size_t kBytes = 50'000;
  const auto blocks_by_thread = [] {
    std::map<std::thread::id, void*> blocks;
    std::mutex mutex;
    std::atomic<int> arrived{0};
    base::parallel_for(2, [&](int64_t) {
      void* const block = scratch_allocate(kBytes);
      for (++arrived; arrived < 2;) std::this_thread::yield();
      const std::lock_guard lock(mutex);
      blocks[std::this_thread::get_id()] = block;
      scratch_free(block, kBytes);
    });
    return blocks;
  };
  const auto first = blocks_by_thread();
  EXPECT_EQ(first.size(), 2u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(blocks_by_thread(), first);
  set_num_threads(threads_before);
}

// Room for the other threads is a convenience: what the body itself needs comes first.
TEST_F(HostAllocator, ProvidesForOthersWithinTheCapOnly) {
  const int threads_before = get_num_threads();
  set_num_threads(2);
  set_host_memory_cap(cpu::memory_reserved() + 4 * static_cast<int64_t>(kMiB));
  base::parallel_for(2, [&](int64_t slice) {
    if (slice == 0) scratch_free(scratch_allocate(3 * kMiB), 3 * kMiB);
  });
  EXPECT_LE(cpu::memory_reserved(), host_memory_cap());
  set_num_threads(threads_before);
}

struct Request {
  size_t bytes;
  void* block;
};

/// Allocates and fills blocks of these sizes.
std::vector<Request> allocate_all(std::initializer_list<size_t> sizes) {
  std::vector<Request> requests;
  for (size_t bytes : sizes) {
    requests.push_back({bytes, host_allocate(bytes)});
    std::memset(requests.back().block, static_cast<int>(requests.size()), bytes);
  }
  return requests;
}

/// Checks that no block has overwritten another.
void free_all(const std::vector<Request>& requests) {
  int value = 0;
  for (const Request& request : requests) {
    ++value;
    const auto* bytes = static_cast<const unsigned char*>(request.block);
    for (size_t i = 0; i < request.bytes; i += 4093) ASSERT_EQ(bytes[i], value) << i;
    host_free(request.block, request.bytes);
  }
}

TEST_F(HostAllocator, BlocksAreCutAndJoined) {
  const int64_t others = cpu::memory_reserved();
  free_all(allocate_all({16 * kMiB, 8 * kMiB, 16 * kMiB, 4 * kMiB, 20 * kMiB}));
  const int64_t reserved = cpu::memory_reserved();
  EXPECT_LT(reserved - others, static_cast<int64_t>(65 * kMiB));
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (int round = 0; round < 3; ++round) {
    free_all(allocate_all({64 * kMiB}));
    free_all(allocate_all({32 * kMiB, 32 * kMiB}));
    free_all(allocate_all({12 * kMiB, 22 * kMiB, 6 * kMiB, 24 * kMiB}));
    free_all(allocate_all({20 * kMiB, 44 * kMiB}));
    free_all(allocate_all({4 * kMiB, 16 * kMiB, 20 * kMiB, 16 * kMiB, 8 * kMiB}));
  }
  getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(cpu::memory_reserved(), reserved);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep books of memory
  EXPECT_LT(after.ru_minflt - before.ru_minflt, 200) << "pages move with their contents";
#endif
  cpu::empty_cache();
  EXPECT_LT(cpu::memory_reserved() - others, static_cast<int64_t>(kMiB));
}

TEST_F(HostAllocator, ThreadsShareTheCache) {
  const int64_t before = cpu::memory_allocated();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) {
        const size_t bytes = 5000 + static_cast<size_t>(i % 7) * 3000;
        auto* block = static_cast<unsigned char*>(host_allocate(bytes));
        block[0] = block[bytes - 1] = static_cast<unsigned char>(t);
        ASSERT_EQ(block[0], t);
        host_free(block, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cpu::memory_allocated(), before);
}

TEST_F(HostAllocator, WorksInTheChildOfAFork) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      host_free(host_allocate(10'000), 10'000);
      small_free(small_allocate(64), 64);
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      host_free(host_allocate(10'000), 10'000);
      small_free(small_allocate(2000), 2000);
      _exit(cpu::memory_stats().allocations > 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  busy.join();
}

// Blocks of one size after the other: the cache gives up those that nobody asks for any more.
TEST_F(HostAllocator, ManySizesInTurnStayWithinTwiceTheMostLive) {
  constexpr size_t kMost = 400 * kMiB;  // more than other tests have at a time
  host_free(host_allocate(kMost), kMost);
  cpu::reset_peak_memory_stats();
  for (size_t bytes = 64 << 10; bytes < 4 * kMiB; bytes += bytes / 8) {
    std::vector<void*> blocks;
    for (size_t live = 0; live < 80 * kMiB; live += bytes) blocks.push_back(host_allocate(bytes));
    for (void* block : blocks) host_free(block, bytes);
  }
  // All together come to more than 2 GiB; what tests before have kept adds a few blocks.
  EXPECT_LE(cpu::memory_stats().peak_reserved_bytes, static_cast<int64_t>(1024 * kMiB));
}

}  // namespace
}  // namespace facula
