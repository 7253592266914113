#include "io/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>

#include "io/archives/compression.h"
#include "io/safetensors/safetensors_header.h"
#include "test_files.h"
#include "tests/io/memory_growth.h"

namespace facula::io {
namespace {

using Bytes = std::vector<uint8_t>;

/// A file with that header and `data_size` bytes of data.
Bytes file_with(std::string_view header, size_t data_size) {
  Bytes file;
  for (int shift = 0; shift < 64; shift += 8)
    file.push_back(static_cast<uint8_t>(uint64_t{header.size()} >> shift));
  file.insert(file.end(), header.begin(), header.end());
  file.resize(file.size() + data_size);
  return file;
}

void expect_refused(std::string_view header, size_t data_size,
                    std::initializer_list<std::string_view> parts) {
  SCOPED_TRACE(header.substr(0, 200));
  const Bytes file = file_with(header, data_size);
  expect_error([&] { SafetensorsReader(file, "evil"); }, parts);
}

std::string tensor(std::string_view name, std::string_view dtype, std::string_view shape,
                   std::string_view offsets) {
  std::ostringstream json;
  json << '"' << name << R"(":{"dtype":")" << dtype << R"(","shape":[)" << shape
       << R"(],"data_offsets":[)" << offsets << "]}";
  return json.str();
}

TEST(Safetensors, RoundTrip) {
  TempFolder folder;
  const Bytes floats(24, 1), shorts(6, 2), flags = {1, 0, 1}, scalar(4, 3);
  const std::vector<SafetensorsEntry> entries = {
      {"mask", "BOOL", {3}, flags},     {"z.weight", "F32", {2, 3}, floats},
      {"half", "BF16", {3, 1}, shorts}, {"a \"quoted\" 猫\n", "I32", {}, scalar},
      {"empty", "F64", {0, 7}, {}},
  };
  const SafetensorsMetadata metadata = {{"format", "pt"}, {"", "ünï\"\\"}};
  write_safetensors(folder / "m.safetensors", entries, metadata);
  const SafetensorsReader reader(folder / "m.safetensors");

  EXPECT_EQ(reader.metadata(), metadata);
  ASSERT_EQ(reader.entries().size(), entries.size());
  for (const auto& expected : entries) {
    const auto* entry = reader.find(expected.name);
    ASSERT_NE(entry, nullptr) << expected.name;
    EXPECT_EQ(entry->dtype, expected.dtype);
    EXPECT_EQ(entry->shape, expected.shape);
    EXPECT_TRUE(std::ranges::equal(entry->data, expected.data));
  }
  EXPECT_EQ(reader.find("absent"), nullptr);

  std::vector<std::string> order;
  for (const auto& entry : reader.entries()) order.push_back(entry.name);
  EXPECT_EQ(order,
            (std::vector<std::string>{"empty", "a \"quoted\" 猫\n", "z.weight", "half", "mask"}));
  const std::string file = get(folder / "m.safetensors");
  EXPECT_EQ(static_cast<uint8_t>(file[0]) % 8, 0) << "padded to a multiple of 8";
  EXPECT_EQ(file[8], '{');
  EXPECT_EQ(reinterpret_cast<uintptr_t>(reader.find("z.weight")->data.data()) % 4, 0u);
}

TEST(Safetensors, NoTensorsAtAll) {
  TempFolder folder;
  write_safetensors(folder / "none", {});
  const SafetensorsReader reader(folder / "none");
  EXPECT_TRUE(reader.entries().empty());
  EXPECT_TRUE(reader.metadata().empty());
}

TEST(Safetensors, MovingTheReaderKeepsTheData) {
  TempFolder folder;
  const Bytes data = {1, 2, 3};
  write_safetensors(folder / "m", std::vector<SafetensorsEntry>{{"t", "U8", {3}, data}});
  SafetensorsReader first(folder / "m");
  const SafetensorsReader second = std::move(first);
  EXPECT_TRUE(std::ranges::equal(second.find("t")->data, data));
}

TEST(Safetensors, EqualContentGivesEqualFiles) {
  TempFolder folder;
  const Bytes a(8, 1), b(4, 2);
  std::vector<SafetensorsEntry> entries = {{"a", "F64", {1}, a}, {"b", "F32", {1}, b}};
  write_safetensors(folder / "1", entries);
  std::swap(entries[0], entries[1]);
  write_safetensors(folder / "2", entries);
  EXPECT_EQ(get(folder / "1"), get(folder / "2"));
}

TEST(Safetensors, WriterRefusesWhatItCouldNotReadBack) {
  TempFolder folder;
  const Bytes data(8);
  const auto refuse = [&](std::vector<SafetensorsEntry> entries,
                          std::initializer_list<std::string_view> parts,
                          const SafetensorsMetadata& metadata = {}) {
    expect_error<ValueError>([&] { write_safetensors(folder / "m", entries, metadata); }, parts);
  };
  refuse({{"t", "F32", {3}, data}}, {"\"t\"", "F32", "[3]", "8 bytes"});
  refuse({{"t", "F32", {-1, -2}, data}}, {"[-1, -2]"});
  refuse({{"t", "F32", {int64_t{1} << 62, 4}, data}}, {"does not fit"});
  refuse({{"t", "float", {2}, data}}, {"unknown dtype \"float\""});
  refuse({{"t", "F32", {2}, data}, {"t", "F64", {1}, data}}, {"two tensors", "\"t\""});
  refuse({{"__metadata__", "F32", {2}, data}}, {"reserved"});
  refuse({{"\xff", "F32", {2}, data}}, {"not UTF-8"});
  refuse({}, {"not UTF-8"}, {{"key", "\xc0\x80"}});
  std::vector<SafetensorsEntry> tiny(200'000, {"", "U8", {0}, {}});
  for (size_t i = 0; i < tiny.size(); ++i) tiny[i].name = std::to_string(i);
  refuse(tiny, {"200000 tensors", "join tiny ones"});
  EXPECT_TRUE(folder.names().empty());
}

TEST(Safetensors, TruncatedAtEveryByte) {
  const Bytes file = file_with("{" + tensor("t", "F32", "2", "0,8") + "}", 8);
  EXPECT_EQ(SafetensorsReader(file, "f").entries().size(), 1u);
  for (size_t size = 0; size < file.size(); ++size) {
    const std::span part(file.data(), size);
    expect_error([&] { SafetensorsReader(part, "cut"); }, {"cut"});
  }
  Bytes longer = file;
  longer.push_back(0);
  expect_error([&] { SafetensorsReader(longer, "long"); }, {"long", "1 bytes follow"});
}

TEST(Safetensors, HeaderLength) {
  Bytes file = file_with("{}", 0);
  file[4] = 1;  // 2^32 + 2
  expect_error([&] { SafetensorsReader(file, "f"); }, {"4294967298", "100000000"});
  const uint64_t limit = kMaxSafetensorsHeader;
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<uint8_t>(limit >> 8 * i);
  expect_error([&] { SafetensorsReader(file, "f"); }, {"100000000 bytes, 2 are there"});
}

TEST(Safetensors, JsonThatIsNot) {
  expect_refused("", 0, {"evil", "not valid JSON"});
  expect_refused("{", 0, {"not valid JSON"});
  expect_refused("{}{}", 0, {"not valid JSON"});
  expect_refused("{} x", 0, {"not valid JSON"});
  expect_refused("{/**/}", 0, {"not valid JSON"});
  expect_refused("{\"__metadata__\":{\"a\":\"\xff\"}}", 0, {"not valid JSON"});
  expect_refused("{\"__metadata__\":{\"a\":\"\xed\xa0\x80\"}}", 0, {"not valid JSON"});
  expect_refused(R"({"__metadata__":{"a":"\ud800"}})", 0, {"not valid JSON"});
  expect_refused(std::string_view("{}\0hidden", 9), 0, {"NUL"});
  expect_refused("\xef\xbb\xbf{}", 0, {"byte order mark"});
}

TEST(Safetensors, JsonOfAnotherStructure) {
  for (const char* text : {"[]", "1", "null", "true", "\"x\"", "1.5", "-1"})
    expect_refused(text, 0, {"evil", "does not allow"});
  for (const char* value : {"[]", "1", "null", "\"x\""})
    expect_refused(std::string(R"({"t":)") + value + "}", 0, {"\"t\"", "does not allow"});
  expect_refused(R"({"__metadata__":{"a":1}})", 0, {"\"a\" has a number"});
  expect_refused(R"({"__metadata__":{"a":{}}})", 0, {"\"a\" has an object"});
  expect_refused(R"({"__metadata__":{"a":null}})", 0, {"\"a\" has null"});
  expect_refused(R"({"__metadata__":[]})", 0, {"an array"});
  expect_refused(R"({"t":{"dtype":1}})", 0, {"tensor \"t\"", "\"dtype\" has a number"});
  expect_refused(R"({"t":{"shape":1}})", 0, {"\"shape\" has a number"});
  expect_refused(R"({"t":{"shape":[[1]]}})", 0, {"an array"});
  expect_refused(R"({"t":{"shape":["1"]}})", 0, {"a string"});
  expect_refused(R"({"t":{"dtype":"U8","shape":[]}})", 0, {"\"t\"", "lacks"});
  expect_refused(R"({"t":{"extra":1}})", 0, {"unknown key"});
  expect_refused("{" + tensor("t", "U8", "-1", "0,1") + "}", 1, {"negative"});
  expect_refused("{" + tensor("t", "U8", "1.0", "0,1") + "}", 1, {"64-bit integer"});
  expect_refused("{" + tensor("t", "U8", "1e0", "0,1") + "}", 1, {"64-bit integer"});
  expect_refused("{" + tensor("t", "U8", "1", "0") + "}", 1, {"fewer than two"});
  expect_refused("{" + tensor("t", "U8", "1", "0,1,1") + "}", 1, {"a number"});
}

TEST(Safetensors, DeepNesting) {
  const std::string deep(1'000'000, '[');
  expect_refused(deep, 0, {"an array"});
  expect_refused(R"({"t":)" + deep, 0, {"an array"});
  std::string objects = R"({"t":{"dtype":)";
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  expect_refused(objects, 0, {"an object"});
}

TEST(Safetensors, RepeatedKeys) {
  const std::string t = tensor("t", "U8", "0", "0,0");
  expect_refused("{" + t + "," + t + "}", 0, {"two tensors", "\"t\""});
  expect_refused("{" + t + "," + tensor("\\u0074", "U8", "0", "0,0") + "}", 0, {"two tensors"});
  expect_refused(R"({"t":{"dtype":"U8","dtype":"U8"}})", 0, {"repeated key"});
  expect_refused(R"({"__metadata__":{"a":"1","a":"2"}})", 0, {"\"a\" has a repeated key"});
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, {"repeated key"});
}

TEST(Safetensors, Sizes) {
  const auto refused = [](std::string_view dtype, std::string_view shape, std::string_view offsets,
                          size_t data, std::string_view part) {
    expect_refused("{" + tensor("t", dtype, shape, offsets) + "}", data, {"evil", "\"t\"", part});
  };
  refused("F32", "2", "0,4", 4, "does not fit");
  refused("F31", "2", "0,8", 8, "unknown dtype \"F31\"");
  refused("F32", "18446744073709551615", "0,4", 4, "18446744073709551615");
  refused("F32", "4611686018427387904,4", "0,0", 0, "does not fit");  // 2^64 elements.
  refused("U8", "4294967296,4294967296", "0,0", 0, "does not fit");
  refused("U8", "0,4294967296,4294967296", "0,0", 0, "does not fit");
  refused("F4", "3", "0,1", 1, "does not fit");
  refused("U8", "1", "1,2", 2, "expected a start of 0");
  refused("U8", "1", "1,0", 1, "expected a start of 0");
  refused("U8", "0", "0,18446744073709551615", 0, "does not fit");
  refused("U8", "1152921504606846976", "0,1152921504606846976", 1, "1 are there");
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += ",1";
  refused("U8", many, "0,1", 1, "more than 64 dimensions");
}

TEST(Safetensors, HolesAndOverlaps) {
  const auto two = [](std::string_view first, std::string_view second) {
    return "{" + tensor("a", "U8", "2", first) + "," + tensor("b", "U8", "2", second) + "}";
  };
  EXPECT_EQ(SafetensorsReader(file_with(two("2,4", "0,2"), 4), "f").entries()[0].name, "b");
  expect_refused(two("0,2", "3,5"), 5, {"\"b\"", "holes or overlaps"});
  expect_refused(two("0,2", "1,3"), 3, {"\"b\"", "holes or overlaps"});
  expect_refused(two("0,2", "0,2"), 2, {"holes or overlaps"});
}

TEST(Safetensors, MessagesDoNotCarryControlCharactersOrEndlessNames) {
  const Bytes file =
      file_with("{" + tensor("\\u001b[2J" + std::string(10'000, 'n'), "X", "", "0,0") + "}", 0);
  try {
    SafetensorsReader(file, "f");
    FAIL();
  } catch (const IoError& error) {
    const std::string message = error.what();
    EXPECT_LT(message.size(), 500u);
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
    EXPECT_NE(message.find("\\u001b"), std::string::npos);
  }
}

TEST(Safetensors, MissingFile) {
  expect_error([] { SafetensorsReader("/no/such.safetensors"); }, {"/no/such.safetensors", "open"});
}

/// The files of a tar archive (POSIX ustar: 512-byte headers, name at 0, octal size at 124).
std::map<std::string, std::span<const uint8_t>> untar(std::span<const uint8_t> archive) {
  std::map<std::string, std::span<const uint8_t>> files;
  while (archive.size() >= 512 && archive[0] != 0) {
    const auto* header = reinterpret_cast<const char*>(archive.data());
    const std::string name(header, ::strnlen(header, 100));
    const size_t size = std::stoul(std::string(header + 124, 11), nullptr, 8);
    archive = archive.subspan(512);
    files[name] = archive.subspan(0, size);
    archive = archive.subspan(std::min(archive.size(), (size + 511) / 512 * 512));
  }
  return files;
}

TEST(Safetensors, AgreesWithTheVerdictsOnAdversarialFiles) {
  FACULA_REQUIRE_SHARED_DATA(path, "adversarial/adversarial.tar.xz");
  const Bytes archive = decompress_file(path, 64 << 20);
  const auto files = untar(archive);
  const std::string folder = "safetensors-vectors/";
  const auto manifest = files.contains(folder + "MANIFEST.tsv") ? folder : "./" + folder;
  const auto text = files.at(manifest + "MANIFEST.tsv");
  std::istringstream lines(std::string(text.begin(), text.end()));
  std::string line;
  std::getline(lines, line);
  int checked = 0;
  while (std::getline(lines, line)) {
    const std::string name = line.substr(0, line.find('\t'));
    const bool accept = line.find("\taccept") != std::string::npos;
    SCOPED_TRACE(line);
    const auto file = files.at(manifest + name);
    expect_memory_within_limit(file.size(), [&] {
      if (accept) {
        EXPECT_NO_THROW(SafetensorsReader(file, name));
      } else {
        EXPECT_THROW(SafetensorsReader(file, name), IoError);
      }
    });
    ++checked;
  }
  EXPECT_EQ(checked, 18);
}

TEST(Safetensors, ReadsFilesOfOtherPrograms) {
  FACULA_REQUIRE_SHARED_DATA(path, "models/models.tar.xz");
  const Bytes archive = decompress_file(path, 64 << 20);
  int read = 0;
  for (const auto& [name, file] : untar(archive)) {
    if (!name.ends_with(".safetensors")) continue;
    SCOPED_TRACE(name);
    size_t size = 0;
    const SafetensorsReader reader(file, name);
    for (const auto& entry : reader.entries()) size += entry.data.size();
    EXPECT_GT(size, 0u);
    EXPECT_LT(size, file.size());
    ++read;
  }
  EXPECT_GE(read, 7);
}

}  // namespace
}  // namespace facula::io
