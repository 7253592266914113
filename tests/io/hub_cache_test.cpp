#include "io/hub_cache.h"

#include <gtest/gtest.h>

namespace facula::io {
namespace {

TEST(HubCache, ChecksumsInNames) {
  EXPECT_EQ(sha256_in_name("https://x/resnet18-f37072fd.pth"), "f37072fd");
  EXPECT_EQ(sha256_in_name("https://x/net-a-5666bf0f80.pth?download=1#top"), "5666bf0f80");
  EXPECT_EQ(sha256_in_name("https://x-f37072fd.net/model.pth"), "");
  EXPECT_EQ(sha256_in_name("https://x/model.pth"), "");
  EXPECT_EQ(sha256_in_name("https://x/model-f37072f.pth"), "");
  EXPECT_EQ(sha256_in_name("https://x/model-f37072fx.pth"), "");
}

TEST(HubCache, DatesTimesAndCountsAreNoChecksums) {
  for (const char* name : {"20240115", "202401151230", "1705312345", "00100000"})
    EXPECT_EQ(sha256_in_name(std::string("https://x/model-") + name + ".pth"), "");
}

}  // namespace
}  // namespace facula::io
