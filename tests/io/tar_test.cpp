#include "io/archives/tar.h"

#include <cstdlib>

#include "io/archives/compression.h"
#include "io/file.h"
#include "tar_files.h"
#include "test_files.h"

namespace facula::io {
namespace {

using Contents = std::vector<std::pair<std::string, std::string>>;

Contents members(const std::string& archive) {
  const auto bytes = bytes_of(archive);
  TarReader reader(bytes, "a.tar");
  Contents contents;
  while (const auto member = reader.next()) {
    contents.emplace_back(member->name, std::string(member->bytes.begin(), member->bytes.end()));
  }
  return contents;
}

std::string pax(const std::string& key, const std::string& value) {
  size_t length = key.size() + value.size() + 3;
  while (fmt::format("{} {}={}\n", length, key, value).size() != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

TEST(Tar, ReadsFilesAndPassesOverTheRest) {
  const std::string big(1000, 'x');
  const std::string archive = tar_member("folder/", "", '5') + tar_member("folder/a", "hello") +
                              tar_member("link", "", '2') + tar_member("empty", "") +
                              tar_member("device", "", '3') + tar_member("big", big, '\0') +
                              tar_member("unknown", "abc", 'V') + tar_member("old/", "", '\0');
  EXPECT_EQ(members(archive + tar_end()),
            (Contents{{"folder/a", "hello"}, {"empty", ""}, {"big", big}}));
  EXPECT_EQ(members(tar_end()), Contents{});
}

TEST(Tar, NamesThatPointElsewhereAreOnlyNames) {
  EXPECT_EQ(members(tar_member("../../etc/passwd", "x") + tar_member("/abs", "y") + tar_end()),
            (Contents{{"../../etc/passwd", "x"}, {"/abs", "y"}}));
}

TEST(Tar, LongNames) {
  const std::string name(300, 'n');
  EXPECT_EQ(members(tar_member("././@LongLink", name + '\0', 'L') + tar_member("nnn", "1") +
                    tar_member("next", "2") + tar_end()),
            (Contents{{name, "1"}, {"next", "2"}}));
  EXPECT_EQ(members(tar_member("PaxHeaders/x", pax("mtime", "1.5") + pax("path", name), 'x') +
                    tar_member("nnn", "1") + tar_member("next", "2") + tar_end()),
            (Contents{{name, "1"}, {"next", "2"}}));
  EXPECT_EQ(members(tar_member("g", pax("comment", "c") + pax("path", "all"), 'g') +
                    tar_member("own", "1") + tar_end()),
            (Contents{{"own", "1"}}));

  std::string block = tar_header("name", "00000000000");
  block.replace(345, 6, "prefix");
  block.replace(148, 8, "        ");
  int sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  block.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  EXPECT_EQ(members(block + tar_end()), (Contents{{"prefix/name", ""}}));
}

TEST(Tar, SizesInOtherForms) {
  const std::string binary{'\x80', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5};
  EXPECT_EQ(members(tar_header("b", binary) + tar_data("hello") + tar_end()),
            (Contents{{"b", "hello"}}));
  EXPECT_EQ(members(tar_header("s", "       5 ") + tar_data("hello") + tar_end()),
            (Contents{{"s", "hello"}}));
  EXPECT_EQ(members(tar_member("x", pax("size", "5"), 'x') + tar_header("p", "00000000000") +
                    tar_data("hello") + tar_end()),
            (Contents{{"p", "hello"}}));
}

TEST(Tar, DamageIsReported) {
  const std::string good = tar_member("a", "hello");
  std::string bad = good;
  bad[0] = 'b';
  expect_error([&] { members(bad + tar_end()); }, {"a.tar", "checksum", "get it again"});
  const auto with_size = [](const std::string& size) { return tar_header("a", size) + tar_end(); };
  expect_error([&] { members(with_size("00000000009")); }, {"size is no number"});
  expect_error([&] { members(with_size(std::string(12, '\xff'))); }, {"size is no number"});
  expect_error([&] { members(with_size('\x80' + std::string(11, '\xff'))); },
               {"size is no number"});
  expect_error([&] { members(with_size("77777777777")); }, {"a.tar", "truncated"});
  // 2^64 - 1 is a whole number of blocks only if adding the padding overflows.
  const std::string most{'\x80', 0,      0,      0,      '\xff', '\xff',
                         '\xff', '\xff', '\xff', '\xff', '\xff', '\xff'};
  expect_error([&] { members(with_size(most)); }, {"a.tar", "truncated"});
  expect_error([&] { members(tar_member("s", "", 'S') + tar_end()); }, {"sparse"});
  expect_error([&] { members(tar_header("L", "00010000000", 'L') + tar_end()); }, {"MiB"});
}

TEST(Tar, DamagedPaxRecords) {
  const auto with = [](const std::string& records) {
    return tar_member("x", records, 'x') + tar_member("a", "hello") + tar_end();
  };
  for (const char* records :
       {"8 path=b\n", "99 path=b\n", "0 path=b\n", "path=b\n", " 9 path=b\n", "10 path=bb", "2 \n",
        "-1 a=b\n", "18446744073709551626 a=b\n", "5 abc\n", "1 "}) {
    expect_error([&] { members(with(records)); }, {"a.tar", "pax record"});
  }
  expect_error([&] { members(with(pax("path", std::string("a\0b", 3)))); }, {"NUL"});
  expect_error([&] { members(with(pax("size", "-5"))); }, {"size is no number"});
  expect_error([&] { members(with(pax("GNU.sparse.major", "1"))); }, {"sparse"});
}

TEST(Tar, TruncatedAtEveryByte) {
  const std::string archive = tar_member("a", "hello") + tar_member("b", std::string(600, 'x'));
  for (size_t size = 0; size <= archive.size(); ++size) {
    EXPECT_THROW(members(archive.substr(0, size)), IoError) << size;
  }
}

TEST(Tar, WrittenByTheSystem) {
  const TempFolder folder;
  const std::string name(200, 'n');
  put(folder / "short", "one");
  put(folder / name, "two");
  for (const std::string format : {"gnu", "pax", "ustar", "v7"}) {
    const std::string path = folder / (format + ".tar.gz");
    const std::string files = format == "gnu" || format == "pax" ? "short " + name : "short";
    const std::string command = "tar -C " + folder.path() + " --format=" + format + " -czf " +
                                path + " " + files + " 2>/dev/null";
    if (std::system(command.c_str()) != 0) GTEST_SKIP() << "needs GNU tar";
    const auto bytes = decompress_file(path, 1 << 20);
    const auto found = members(std::string(bytes.begin(), bytes.end()));
    ASSERT_EQ(found.size(), files == "short" ? 1u : 2u) << format;
    EXPECT_EQ(found[0], std::pair(std::string("short"), std::string("one")));
    if (found.size() == 2) {
      EXPECT_EQ(found[1], std::pair(name, std::string("two")));
    }
  }
}

TEST(Tar, RealArchive) {
  FACULA_REQUIRE_SHARED_DATA(path, "images/flower_photos_400.tar");
  const MappedFile file(path);
  TarReader reader(file.bytes(), path);
  int photos = 0;
  while (const auto member = reader.next()) {
    if (!member->name.ends_with(".jpg")) continue;
    ++photos;
    ASSERT_EQ(member->bytes[0], 0xff) << member->name;
    ASSERT_EQ(member->bytes[1], 0xd8) << member->name;
  }
  EXPECT_EQ(photos, 400);
}

}  // namespace
}  // namespace facula::io
