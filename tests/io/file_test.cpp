#include "io/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <thread>

#include "test_files.h"

namespace facula::io {
namespace {

TEST(MappedFile, GivesTheBytes) {
  TempFolder folder;
  put(folder / "a", "hello");
  MappedFile file(folder / "a");
  EXPECT_EQ(std::string(file.bytes().begin(), file.bytes().end()), "hello");
  EXPECT_EQ(file.path(), folder / "a");

  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.size(), 5u);
  EXPECT_EQ(file.size(), 0u);
  put(folder / "b", "other");
  moved = MappedFile(folder / "b");
  EXPECT_EQ(moved.bytes()[0], 'o');
}

TEST(MappedFile, EmptyFile) {
  TempFolder folder;
  put(folder / "empty", "");
  EXPECT_EQ(MappedFile(folder / "empty").size(), 0u);
}

TEST(MappedFile, KeepsTheContentOfAReplacedFile) {
  TempFolder folder;
  put(folder / "a", "old");
  MappedFile file(folder / "a");
  put(folder / "b", "new");
  std::filesystem::rename(folder / "b", folder / "a");
  EXPECT_EQ(file.bytes()[0], 'o');
}

TEST(MappedFile, LackOfAddressesIsNotTheFilesFault) {
  constexpr std::uint64_t kSize = std::uint64_t{1} << 33;  // sparse
  TempFolder folder;
  put(folder / "large", "");
  std::filesystem::resize_file(folder / "large", kSize);
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const struct rlimit small = {pages * 4096 + kSize / 2, before.rlim_max};
  if (::setrlimit(RLIMIT_AS, &small) != 0) GTEST_SKIP() << "the limit is lower already";
  expect_error<OutOfMemory>([&] { MappedFile(folder / "large"); },
                            {"cannot map", "large", "memory", "ulimit -v"});
  ::setrlimit(RLIMIT_AS, &before);
}

TEST(MappedFile, ErrorsNamePathReasonAndRemedy) {
  TempFolder folder;
  expect_error([&] { MappedFile(folder / "missing"); },
               {"cannot open", folder / "missing", "No such file", "check the path"});
  expect_error([&] { MappedFile(folder.path()); }, {folder.path(), "not a regular file"});
  expect_error([&] { MappedFile("/dev/null"); }, {"/dev/null", "not a regular file"});
  // Opening a pipe that nobody writes to must not wait.
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error([&] { MappedFile(folder / "pipe"); }, {folder / "pipe", "not a regular file"});
  expect_error([&] { MappedFile(std::string("a\0b", 3)); }, {"NUL", "position 1"});
}

TEST(IsFile, TellsOrThrows) {
  TempFolder folder;
  put(folder / "a", "");
  EXPECT_TRUE(is_file(folder / "a"));
  EXPECT_FALSE(is_file(folder.path()));
  EXPECT_FALSE(is_file(folder / "missing"));
  EXPECT_FALSE(is_file(folder / "a/b"));
  EXPECT_FALSE(is_file("/dev/null"));
  expect_error([&] { is_file(folder / std::string(300, 'x')); }, {"xxx", "shorter name"});
  expect_error([&] { is_file(folder / std::string("a\0b", 3)); }, {"NUL"});
}

TEST(ReadFile, HonoursTheLimitExactly) {
  TempFolder folder;
  put(folder / "a", std::string(100'000, 'x'));
  EXPECT_EQ(read_file(folder / "a", 100'000).size(), 100'000u);
  EXPECT_EQ(read_file(folder / "a", SIZE_MAX).size(), 100'000u);
  expect_error([&] { read_file(folder / "a", 99'999); }, {folder / "a", "100000", "99999"});
  put(folder / "empty", "");
  EXPECT_TRUE(read_file(folder / "empty", 0).empty());
}

TEST(ReadFile, RefusesASparseGiantBeforeAllocating) {
  TempFolder folder;
  put(folder / "giant", "");
  ASSERT_EQ(::truncate((folder / "giant").c_str(), off_t{1} << 40), 0);
  expect_error([&] { read_file(folder / "giant", 1 << 20); }, {"1099511627776", "1048576"});
}

TEST(ReadFile, ReadsPipesUpToTheLimit) {
  TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  constexpr size_t kSize = 200'000;  // More than the first guess of 64 KiB.
  for (const size_t limit : {kSize, kSize - 1, size_t{10}}) {
    ::signal(SIGPIPE, SIG_IGN);
    std::thread writer([&] { put(pipe, std::string(kSize, 'x')); });
    if (limit == kSize) {
      EXPECT_EQ(read_file(pipe, limit), std::vector<uint8_t>(kSize, 'x'));
    } else {
      expect_error([&] { read_file(pipe, limit); }, {pipe, std::to_string(limit)});
    }
    writer.join();
  }
}

TEST(ReadFile, ReadsFilesThatReportNoSize) {
  EXPECT_FALSE(read_file("/proc/self/stat", 1 << 20).empty());
}

TEST(ReadFile, ReportsFoldersAndForbiddenFiles) {
  TempFolder folder;
  expect_error([&] { read_file(folder.path(), 10); }, {folder.path(), "Is a directory"});
  put(folder / "file", "x");
  expect_error([&] { read_file(folder / "file/below", 10); }, {"Not a directory"});

  // The superuser may read everything, so that the test has to become somebody else.
  put(folder / "secret", "x");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0), 0);
  const uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  expect_error([&] { read_file(folder / "secret", 10); },
               {"Permission denied", "check the permissions"});
  ASSERT_EQ(::seteuid(user), 0);
  ::chmod(folder.path().c_str(), 0700);
}

TEST(MakeFolder, MakesOneAndNoneAbove) {
  const TempFolder folder;
  make_folder(folder / "a");
  make_folder(folder / "a");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "a"));
  expect_error([&] { make_folder(folder / "missing/b"); }, {folder / "missing/b", "No such file"});
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
  put(folder / "file", "content");
  expect_error([&] { make_folder(folder / "file"); }, {folder / "file", "File exists"});
  const InFolder inside(folder.path());
  make_folder("b");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "b"));
}

TEST(MakeFolders, MakesThoseAbove) {
  const TempFolder folder;
  make_folders(folder / "a/b/../c/");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "a/c"));
  put(folder / "a/file", "content");
  expect_error([&] { make_folders(folder / "a/file/d"); },
               {folder / "a/file", "create the folder"});
}

TEST(MakeFolders, FollowsLinksBeforeItGoesUp) {
  const TempFolder folder;
  make_folders(folder / "far/away");
  std::filesystem::create_directory_symlink("far/away", folder / "link");
  make_folders(folder / "link/../run");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "far/run"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(WriteAll, ReportsAFullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  FileDescriptor full(::open("/dev/full", O_WRONLY));
  expect_error([&] { write_all(full.get(), bytes_of("x"), "/dev/full"); },
               {"cannot write '/dev/full'", "No space left", "free disk space"});
}

TEST(WriteAll, SurvivesSignalsAndShortWrites) {
  struct sigaction interrupting = {};
  interrupting.sa_handler = [](int) {};  // Without SA_RESTART: writes return early or with EINTR.
  struct sigaction before;
  ASSERT_EQ(::sigaction(SIGUSR1, &interrupting, &before), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  FileDescriptor input(ends[0]), output(ends[1]);

  std::vector<uint8_t> sent(4 << 20);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  std::vector<uint8_t> received;
  std::thread writer([&] {
    write_all(output.get(), sent, "pipe");
    output.close();
  });
  std::vector<uint8_t> buffer(50'000);
  for (ssize_t count; (count = ::read(input.get(), buffer.data(), buffer.size())) != 0;) {
    if (count > 0) received.insert(received.end(), buffer.begin(), buffer.begin() + count);
    ::pthread_kill(writer.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  writer.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(sent, received);
}

}  // namespace
}  // namespace facula::io
