#include <facula/json_line.h>

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace facula {
namespace {

TEST(JsonLine, FieldsInOrder) {
  EXPECT_EQ(JsonLine().str(), "{}");
  const std::string name = "ResNet";
  EXPECT_EQ(JsonLine().add("name", name).add("kind", "train").add("epoch", 3).add("ok", true).str(),
            R"({"name":"ResNet","kind":"train","epoch":3,"ok":true})");
  EXPECT_EQ(JsonLine()
                .add("low", std::numeric_limits<int64_t>::min())
                .add("high", std::numeric_limits<uint64_t>::max())
                .str(),
            R"({"low":-9223372036854775808,"high":18446744073709551615})");
}

TEST(JsonLine, FloatsSurviveTheRoundTrip) {
  for (const float value : {0.1f, 3.14159274f, 1e-38f, 16777217.0f, -3.4e38f}) {
    const std::string json = JsonLine().add("x", value).str();
    EXPECT_EQ(std::strtof(json.c_str() + 5, nullptr), value) << json;
  }
  EXPECT_EQ(JsonLine().add("x", 0.25).add("y", 2.0).str(), R"({"x":0.25,"y":2})");
}

TEST(JsonLine, NonFiniteNumbersAreNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {1.5, -infinity, std::nan("")};
  EXPECT_EQ(JsonLine().add("x", infinity).add("y", values).str(),
            R"({"x":null,"y":[1.5,null,null]})");
}

TEST(JsonLine, Arrays) {
  const std::vector<int64_t> shape = {128, 3};
  EXPECT_EQ(JsonLine().add("shape", shape).add("none", std::vector<double>{}).str(),
            R"({"shape":[128,3],"none":[]})");
}

TEST(JsonLine, IgnoresTheLocale) {
  if (!std::setlocale(LC_NUMERIC, "de_DE.UTF-8")) GTEST_SKIP() << "needs the locale de_DE.UTF-8";
  EXPECT_EQ(JsonLine().add("x", 0.5).str(), R"({"x":0.5})");
  std::setlocale(LC_NUMERIC, "C");
}

TEST(JsonString, Escapes) {
  EXPECT_EQ(json_string("plain"), "\"plain\"");
  EXPECT_EQ(json_string("\"\\\n\t\r\x01\x7f"), R"("\"\\\n\t\u000d\u0001\u007f")");
  EXPECT_EQ(json_string(std::string_view("a\0b", 3)), R"("a\u0000b")");
  EXPECT_EQ(json_string("Jürgen 猫 🐱"), "\"Jürgen 猫 🐱\"");
}

TEST(JsonString, ReplacesInvalidUtf8) {
  EXPECT_EQ(json_string("a\xff"
                        "b"),
            R"("a\ufffdb")");
  EXPECT_EQ(json_string("\xc0\x80"), R"("\ufffd\ufffd")");            // Overlong NUL.
  EXPECT_EQ(json_string("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");  // A surrogate.
  EXPECT_EQ(json_string("\xf4\x90\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")");
  EXPECT_EQ(json_string("\xe7\x8c"), R"("\ufffd\ufffd")");  // Cut short.
}

}  // namespace
}  // namespace facula
