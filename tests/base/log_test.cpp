#include "base/log.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace facula {
namespace {

class Log : public ::testing::Test {
 protected:
  void TearDown() override { set_log_level(before_); }

  template <class Action>
  static std::string captured(Action action) {
    ::testing::internal::CaptureStderr();
    action();
    return ::testing::internal::GetCapturedStderr();
  }

 private:
  LogLevel before_ = log_level();
};

TEST_F(Log, WritesFormattedLinesToStderr) {
  set_log_level(LogLevel::kInfo);
  const std::string text = captured([] { log_warning("{} of {} workers", 3, 7); });
  EXPECT_NE(text.find("3 of 7 workers\n"), std::string::npos) << text;
  EXPECT_NE(text.find("[warning]"), std::string::npos) << text;
}

TEST_F(Log, LevelFilters) {
  set_log_level(LogLevel::kWarning);
  EXPECT_EQ(captured([] { log_info("hidden"); }), "");
  EXPECT_EQ(captured([] { log_debug("hidden"); }), "");
  EXPECT_NE(captured([] { log_error("shown"); }), "");
  set_log_level(LogLevel::kOff);
  EXPECT_EQ(captured([] { log_error("hidden"); }), "");
  set_log_level(LogLevel::kDebug);
  EXPECT_NE(captured([] { log_debug("shown"); }), "");
}

TEST_F(Log, BracesInMessagesAreNotFormattedAgain) {
  set_log_level(LogLevel::kInfo);
  const std::string text = captured([] { log_info("{}", "a {} b"); });
  EXPECT_NE(text.find("a {} b"), std::string::npos) << text;
}

/// What follows is logged to `file`, until this ends.
class StderrIs {
 public:
  explicit StderrIs(int file) : before_(::dup(2)) {
    ::dup2(file, 2);
    ::close(file);
  }
  ~StderrIs() {
    ::dup2(before_, 2);
    ::close(before_);
  }
  StderrIs(const StderrIs&) = delete;
  StderrIs& operator=(const StderrIs&) = delete;

 private:
  int before_;
};

void expect_neither_held_nor_waiting(int signal) {
  sigset_t held, waiting;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &held), 0);
  ASSERT_EQ(::sigpending(&waiting), 0);
  EXPECT_EQ(sigismember(&held, signal), 0);
  EXPECT_EQ(sigismember(&waiting, signal), 0);
}

// Each signal would end this program.
TEST_F(Log, MessagesThatCannotBeWrittenRaiseNoSignals) {
  set_log_level(LogLevel::kInfo);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  {
    const StderrIs unread(ends[1]);
    log_warning("nobody reads this");
  }
  expect_neither_held_nor_waiting(SIGPIPE);

  const std::string path = ::testing::TempDir() + "log_without_room";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  ::unlink(path.c_str());
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  {
    const StderrIs full(file);
    log_warning("there is no room for this");
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  expect_neither_held_nor_waiting(SIGXFSZ);
}

// A signal that the program holds back itself is its own.
TEST_F(Log, SignalsThatTheProgramHoldsBackStay) {
  set_log_level(LogLevel::kInfo);
  sigset_t pipe_signal, before, waiting;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before), 0);
  ::raise(SIGPIPE);
  log_info("read");
  ASSERT_EQ(::sigpending(&waiting), 0);
  EXPECT_EQ(sigismember(&waiting, SIGPIPE), 1);
  const timespec at_once{};
  EXPECT_EQ(::sigtimedwait(&pipe_signal, nullptr, &at_once), SIGPIPE);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace facula
