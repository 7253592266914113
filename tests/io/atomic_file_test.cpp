#include "io/atomic_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "test_files.h"

namespace facula::io {
namespace {

TEST(AtomicFile, CreatesAndReplaces) {
  TempFolder folder;
  write_file(folder / "a", bytes_of("one"));
  EXPECT_EQ(get(folder / "a"), "one");
  AtomicFile file(folder / "a");
  file.write("tw");
  file.write("o");
  EXPECT_EQ(get(folder / "a"), "one");
  file.commit();
  EXPECT_EQ(get(folder / "a"), "two");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
  expect_error([&] { file.commit(); }, {"twice"});
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  TempFolder folder;
  put(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
  }
  EXPECT_EQ(get(folder / "a"), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(AtomicFile, AFailedWriteKeepsTheOldFile) {
  TempFolder folder;
  put(folder / "a", "old");
  // A limit on file sizes stands in for a full disk: the first write is short, the next one fails,
  // with a signal that would end this process.
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = 10'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error([&] { write_file(folder / "a", std::vector<uint8_t>(20'000)); },
               {"cannot write", folder / "a", "File too large", "ulimit -f"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  sigset_t blocked, pending;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(::sigismember(&blocked, SIGXFSZ), 0);
  EXPECT_EQ(::sigismember(&pending, SIGXFSZ), 0);
  EXPECT_EQ(get(folder / "a"), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(AtomicFile, AFailedRenameRemovesTheTemporary) {
  TempFolder folder;
  {
    AtomicFile file(folder / "a");
    file.write("new");
    // A folder that takes the file's place meanwhile cannot be replaced.
    std::filesystem::create_directory(folder / "a");
    expect_error([&] { file.commit(); }, {"cannot replace", folder / "a", "Is a directory"});
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(AtomicFile, IgnoresLeftoversOfOtherProcesses) {
  TempFolder folder;
  // All names the next files would take, were it not for these.
  for (int i = 0; i < 100; ++i)
    put(folder / (".facula-" + std::to_string(::getpid()) + "-" + std::to_string(i) + ".tmp"), "x");
  write_file(folder / "a", bytes_of("new"));
  EXPECT_EQ(get(folder / "a"), "new");
  EXPECT_EQ(folder.names().size(), 101u);
}

TEST(AtomicFile, KeepsPermissions) {
  TempFolder folder;
  put(folder / "a", "old");
  ASSERT_EQ(::chmod((folder / "a").c_str(), 0640), 0);
  write_file(folder / "a", bytes_of("new"));
  struct stat status;
  ASSERT_EQ(::stat((folder / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(AtomicFile, SurvivesAChangeOfFolder) {
  TempFolder folder;
  auto inside = std::make_optional<InFolder>(folder.path());
  AtomicFile file("a");
  file.write("x");
  inside.reset();
  file.commit();
  EXPECT_EQ(get(folder / "a"), "x");
}

TEST(AtomicFile, RefusesWhatIsNoFile) {
  TempFolder folder;
  expect_error([&] { AtomicFile(folder.path()); }, {folder.path(), "not a regular file"});
  expect_error([] { AtomicFile("/dev/null"); }, {"/dev/null", "not a regular file"});
  expect_error([&] { AtomicFile(folder / ""); }, {"does not end in a file name"});
  expect_error([] { AtomicFile(""); }, {"does not end in a file name"});
  expect_error([&] { AtomicFile(folder / "no/such"); }, {"no/", "No such file", "check the path"});
  expect_error([&] { AtomicFile(folder / std::string(300, 'n')); }, {"too long", "shorter name"});
}

TEST(AtomicFile, ReportsAForbiddenFolder) {
  TempFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  // The superuser may write everywhere, so that the test has to become somebody else.
  const uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  expect_error([&] { AtomicFile(folder / "a"); },
               {folder / "a", "temporary", "Permission denied", "check the permissions"});
  ASSERT_EQ(::seteuid(user), 0);
  ::chmod(folder.path().c_str(), 0700);
}

}  // namespace
}  // namespace facula::io
