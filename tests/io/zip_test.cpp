#include "io/archives/zip.h"

#include "tests/io/test_files.h"
#include "tests/io/zip_files.h"

namespace facula::io {
namespace {

constexpr uint64_t kAny = 1 << 20;

std::string text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::string content(const std::string& archive, const std::string& name) {
  const auto bytes = bytes_of(archive);
  const ZipReader zip(bytes, "a.zip");
  const ZipMember* member = zip.find(name);
  if (!member) return "(none)";
  std::vector<uint8_t> filled(member->size);
  zip.read_into(*member, filled);
  EXPECT_EQ(zip.read(*member, kAny), filled);
  return text(filled);
}

void expect_refused(const std::string& archive, std::initializer_list<std::string_view> parts) {
  expect_error(
      [&] {
        const auto bytes = bytes_of(archive);
        const ZipReader zip(bytes, "a.zip");
        for (const ZipMember& member : zip.members()) zip.read(member, kAny);
      },
      parts);
}

TEST(Zip, StoredAndDeflatedMembers) {
  const std::string large(300'000, 'x');
  const std::string archive = zip_file({{"a", "hello"}, {"b", large, true}, {"c/", ""}}, "comment");
  EXPECT_EQ(content(archive, "a"), "hello");
  EXPECT_EQ(content(archive, "b"), large);
  EXPECT_EQ(content(archive, "c/"), "");
  EXPECT_EQ(content(archive, "d"), "(none)");
  EXPECT_EQ(content(zip_end(0, 0, 0), "a"), "(none)");
}

TEST(Zip, WhatIsWrittenIsReadAndAligned) {
  const TempFolder folder;
  const std::string path = folder / "a.zip";
  for (const std::string name : {"a", "folder/a name of some length"}) {
    AtomicFile file(path);
    ZipWriter writer(file);
    writer.add(name, "one");
    writer.add(name + "2", std::string(1000, 'y'));
    writer.add("empty", "");
    writer.finish();
    file.commit();
    const auto bytes = bytes_of(get(path));
    const ZipReader zip(bytes, path);
    ASSERT_EQ(zip.members().size(), 3u);
    EXPECT_EQ(text(zip.read(*zip.find(name), kAny)), "one");
    EXPECT_EQ(zip.view(*zip.find(name + "2")).size(), 1000u);
    for (const ZipMember& member : zip.members()) {
      EXPECT_EQ((member.packed.data() - bytes.data()) % 64, 0) << member.name;
    }
  }
}

TEST(Zip, DamageIsNoticed) {
  std::string archive = zip_file({{"name", "content"}});
  archive[archive.find("content")] ^= 1;
  expect_refused(archive, {"a.zip", "\"name\"", "CRC-32"});
  std::string packed = zip_file({{"name", std::string(1000, 'x'), true}});
  packed[34 + 3] ^= 0x55;
  expect_refused(packed, {"a.zip", "\"name\"", "damaged"});
  const std::string whole = zip_file({{"name", "content"}, {"b", std::string(99, 'x'), true}});
  for (size_t size = 0; size < whole.size(); ++size) {
    expect_refused(whole.substr(0, size), {"a.zip"});
  }
}

TEST(Zip, WhatReadersTakeForDifferentThingsIsRefused) {
  const std::string archive = zip_file({{"a", "1"}});
  expect_refused("x" + archive, {"a.zip", "before"});
  expect_refused(archive + "x", {"a.zip", "followed"});
  expect_refused(zip_file({{"a", "1"}}, archive), {"a.zip", "two zip archives"});
  expect_refused(zip_file({{"a", "1"}, {"a", "2"}}), {"two zip members are called \"a\""});
  expect_refused(zip_file({{.name = "a", .content = "1", .local_name = "b"}}), {"contradict"});
  expect_refused(zip_file({{"a", "1"}, {.name = "a", .content = "1", .offset = 0}}), {"share"});
  expect_refused(zip_file({{std::string("a\0b", 3), "1"}}), {"name"});
  expect_refused(zip_file({{"", "1"}}), {"name"});
}

TEST(Zip, WhatCannotBeReadIsNamed) {
  expect_refused(zip_file({{.name = "a", .content = "1", .flags = 1}}), {"\"a\" is encrypted"});
  expect_refused(zip_file({{.name = "a", .content = "1", .method = 14}}), {"\"a\"", "method 14"});
  std::string parts = zip_file({{"a", "1"}});
  parts[parts.size() - 18] = 1;
  expect_refused(parts, {"several parts"});
}

TEST(Zip, BombsAreRefused) {
  // More than deflate can pack, a claim that is too large or too small, and more than allowed.
  expect_refused(zip_file({{.name = "a", .content = "1", .deflate = true, .size = 10'000}}),
                 {"\"a\" cannot hold 10000 bytes"});
  expect_refused(zip_file({{.name = "a", .content = "1", .size = 2}}), {"cannot hold"});
  const std::string zeros(100'000, '\0');
  for (const int64_t size : {99'999, 100'001}) {
    expect_refused(zip_file({{.name = "a", .content = zeros, .deflate = true, .size = size}}),
                   {"\"a\"", "damaged"});
  }
  expect_refused(zip_file({{"a", std::string(2 * kAny, '\0'), true}}), {"the limit is 1048576"});
}

}  // namespace
}  // namespace facula::io
