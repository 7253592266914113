#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include <facula/error.h>

namespace facula::base {
namespace {

constexpr const char* kName = "FACULA_TEST_VARIABLE";

class Env : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv(kName); }
  static void set(const char* value) { setenv(kName, value, 1); }
};

TEST_F(Env, UnsetAndEmptyAreAbsent) {
  unsetenv(kName);
  EXPECT_FALSE(env_string(kName));
  EXPECT_FALSE(env_int(kName, 0, 9));
  EXPECT_FALSE(env_bool(kName));
  set("");
  EXPECT_FALSE(env_string(kName));
  EXPECT_FALSE(env_int(kName, 0, 9));
}

TEST_F(Env, ReadsIntegersInRange) {
  set("-12");
  EXPECT_EQ(env_int(kName, -12, 9), -12);
  EXPECT_THROW(env_int(kName, -11, 9), ValueError);
  set("9223372036854775807");
  EXPECT_EQ(env_int(kName, 0, INT64_MAX), INT64_MAX);
}

TEST_F(Env, RefusesWhatIsNoInteger) {
  for (const char* bad : {"4x", "x", "4.5", " 4", "9223372036854775808", "+", "0x10"}) {
    set(bad);
    EXPECT_THROW(env_int(kName, INT64_MIN, INT64_MAX), ValueError) << bad;
  }
}

TEST_F(Env, MessageNamesVariableValueAndRange) {
  set("many");
  try {
    env_int(kName, 1, 1024);
    FAIL();
  } catch (const ValueError& error) {
    const std::string message = error.what();
    for (const char* part : {kName, "many", "1 to 1024"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
}

TEST_F(Env, ReadsSwitches) {
  for (const char* on : {"1", "true", "ON", "Yes"}) {
    set(on);
    EXPECT_EQ(env_bool(kName), true) << on;
  }
  for (const char* off : {"0", "False", "off", "NO"}) {
    set(off);
    EXPECT_EQ(env_bool(kName), false) << off;
  }
  set("2");
  EXPECT_THROW(env_bool(kName), ValueError);
}

}  // namespace
}  // namespace facula::base
