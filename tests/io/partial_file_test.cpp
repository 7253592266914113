#include "io/partial_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <facula/error.h>

#include "test_files.h"

namespace facula::io {
namespace {

void receive(const PartialFile& partial, const std::string& text) {
  write_all(partial.file().get(), {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()},
            partial.path());
}

TEST(PartialFile, WaitsForOthersAndGoesOnWhereTheyEnded) {
  const TempFolder folder;
  auto first = std::make_unique<PartialFile>(folder / "x");
  receive(*first, "abc");
  std::atomic<bool> entered = false;
  std::uint64_t found = 0;
  std::thread other([&] {
    const PartialFile second(folder / "x");
    entered = true;
    found = second.size();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(entered);
  first.reset();
  other.join();
  EXPECT_EQ(found, 3);
  EXPECT_EQ(get(folder / "x"), "abc");
}

TEST(PartialFile, KeepsNothingOfNoUse) {
  const TempFolder folder;
  { const PartialFile empty(folder / "empty"); }
  {
    PartialFile unknown(folder / "unknown");
    unknown.set_worth_keeping(false);
    receive(unknown, "abc");
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>());
}

/// A file system whose flock() fails with this error.
struct Locks {
  static inline int error;

  const SystemCalls usual = system_calls;
  explicit Locks(int number) {
    error = number;
    system_calls.flock = [](int, int) {
      errno = error;
      return -1;
    };
  }
  ~Locks() { system_calls = usual; }
};

TEST(PartialFile, WithoutLocksEachHasItsOwn) {
  for (const int error : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
    const Locks locks(error);
    const TempFolder folder;
    {
      PartialFile first(folder / "x"), second(folder / "x");
      receive(first, "abc");
      receive(second, "de");
      EXPECT_EQ(first.size(), 3);
      EXPECT_EQ(second.size(), 2);
      EXPECT_FALSE(first.worth_keeping());
      first.rename_to(folder / "done");
    }
    EXPECT_EQ(folder.names(), std::vector<std::string>{"done"});
    EXPECT_EQ(get(folder / "done"), "abc");
  }
}

TEST(PartialFile, WithoutLocksOldOnesOfOthersAreRemoved) {
  const Locks locks(ENOLCK);
  const TempFolder folder;
  for (const char* name : {"x-1-0", "x-2-0", "y-1-0"}) put(folder / name, "abc");
  const auto yesterday = std::filesystem::file_time_type::clock::now() - std::chrono::hours(25);
  for (const char* name : {"x-1-0", "y-1-0"}) {
    std::filesystem::last_write_time(folder / name, yesterday);
  }
  { const PartialFile mine(folder / "x"); }
  std::vector<std::string> names = folder.names();
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"x-2-0", "y-1-0"}));
}

TEST(PartialFile, OtherFailuresOfLocksAreErrors) {
  const Locks locks(EIO);
  const TempFolder folder;
  EXPECT_THROW(PartialFile(folder / "x"), IoError);
  EXPECT_EQ(folder.names(), std::vector<std::string>());
}

}  // namespace
}  // namespace facula::io
