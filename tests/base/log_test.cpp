#include "base/log.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace facula
