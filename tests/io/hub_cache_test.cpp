#include "io/hub_cache.h"

#include <fcntl.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "io/file.h"
#include "io/sha256.h"
#include "test_files.h"

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

/// Puts the good file in the place of a damaged one as soon as that has been opened.
struct Replaced {
  static inline std::string good, path;

  const SystemCalls usual = system_calls;
  Replaced() {
    system_calls.openat = [](int folder, const char* name, int flags, mode_t mode) {
      const int file = ::openat(folder, name, flags, mode);
      if (name == path && !good.empty()) std::filesystem::rename(std::exchange(good, ""), path);
      return file;
    };
  }
  ~Replaced() { system_calls = usual; }
};

TEST(HubCache, AFileThatAnotherProcessReplacesStays) {
  const TempFolder folder;
  const std::string sha256 = sha256_of("content");
  const HubCache cache(folder.path());
  std::filesystem::create_directory(folder / "files");
  Replaced::path = cache.path_of(sha256);
  Replaced::good = folder / "good";
  put(Replaced::path, "damaged");
  put(Replaced::good, "content");
  const Replaced replaced;
  EXPECT_EQ(cache.find({"http://x/y", sha256}), Replaced::path);
  EXPECT_EQ(get(Replaced::path), "content");
}

TEST(HubCache, DamagedFilesAreRemoved) {
  const TempFolder folder;
  const std::string sha256 = sha256_of("content");
  const HubCache cache(folder.path());
  std::filesystem::create_directory(folder / "files");
  put(cache.path_of(sha256), "damaged");
  EXPECT_EQ(cache.find({"http://x/y", sha256}), "");
  EXPECT_FALSE(is_file(cache.path_of(sha256)));
}

}  // namespace
}  // namespace facula::io
