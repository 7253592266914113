// Files made to attack those who open them. Whatever they hold, they give a tree or an error, and
// neither takes memory that their size does not justify.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/archives/zip.h"
#include "io/torch/torch_file.h"
#include "tests/io/memory_growth.h"
#include "tests/io/shared_files.h"
#include "tests/io/test_files.h"
#include "tests/io/zip_files.h"
#include "tests/support/problems.h"

namespace facula::io {
namespace {

using Bytes = std::vector<uint8_t>;

/// Runs `read`, which may throw an Error that names the file; the message, or "".
template <class Read>
std::string verdict(const std::string& name, const Bytes& file, const Read& read) {
  std::string message;
  SCOPED_TRACE(name);
  expect_memory_within_limit(file.size(), [&] {
    try {
      read();
    } catch (const Error& error) {
      message = error.what();
      EXPECT_NE(message.find(name), std::string::npos) << message;
    }
  });
  return message;
}

std::string load(const std::string& name, const Bytes& file) {
  return verdict(name, file, [&] { TorchFileReader(file, name).load(); });
}

/// All of the archive, unpacked once.
const std::map<std::string, Bytes>& all_files(const std::string& path) {
  static const auto files = shared_files(path, "");
  return files;
}

TEST(TorchAdversarial, Pickles) {
  FACULA_REQUIRE_SHARED_DATA(path, "adversarial/adversarial.tar.xz");
  int files = 0, named = 0;
  for (const auto& [name, file] : all_files(path)) {
    if (name.starts_with("picklescan/") || name.starts_with("misc/")) {
      const std::string message = load(name, file);
      // Two of them hold tensors only, one in each format.
      EXPECT_EQ(message.empty(), name.ends_with("pytorch_model.bin")) << name << ": " << message;
      named += message.find("refuses to call") != std::string::npos;
      ++files;
    }
  }
  EXPECT_EQ(files, 117);
  EXPECT_EQ(named, 87);
}

TEST(TorchAdversarial, Archives) {
  FACULA_REQUIRE_SHARED_DATA(path, "adversarial/adversarial.tar.xz");
  int files = 0, opened = 0;
  for (const auto& [name, file] : all_files(path)) {
    if (name.starts_with("zip-")) {
      load(name, file);
      const std::string message = verdict(name, file, [&] {
        const ZipReader zip(file, name);
        for (const ZipMember& member : zip.members()) {
          zip.read(member, 2 * file.size() + (uint64_t{16} << 20));
        }
      });
      opened += message.empty();
      ++files;
    }
  }
  EXPECT_EQ(files, 1152);
  EXPECT_EQ(opened, 98);
}

/// A dict of `count` tensors that share one storage, in a few bytes each: what the calls are made
/// of is remembered. `name` gives the key of each.
template <class Name>
std::string many_tensors(int count, const Name& name) {
  std::string pickle =
      "}ctorch._utils\n_rebuild_tensor\np0\n0((S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI4\n"
      "tQI0\n(t(ttp1\n0(";
  for (int i = 0; i < count; ++i) pickle += "S'" + name(i) + "'\ng0\ng1\nR";
  return pickle + "u.";
}

TEST(TorchAdversarial, ManyTensorsInFewBytes) {
  FACULA_NOTHING_FOR_TSAN();
  const auto flat = [](int i) { return std::to_string(i); };
  const auto pairs = [](int i) { return std::to_string(i / 2) + "." + std::to_string(i % 2); };
  const auto deep = [](int i) {
    std::string name = std::to_string(i);
    for (int part = 0; part < 60; ++part) name += ".a";
    return name;
  };
  int loaded = 0;
  for (const int count : {1'000, 10'000, 30'000, 50'000, 100'000, 300'000}) {
    for (const std::string& pickle :
         {many_tensors(count, flat), many_tensors(count, pairs), many_tensors(count, deep)}) {
      const std::string file =
          zip_file({{"x/data.pkl", pickle}, {"x/data/0", std::string(16, 'x')}});
      loaded += load("many.pt", bytes_of(file)).empty();
    }
  }
  EXPECT_GE(loaded, 9);
}

TEST(TorchAdversarial, ManyEntriesInFewBytes) {
  FACULA_NOTHING_FOR_TSAN();
  for (const int count : {130'000, 200'000, 270'000, 330'000, 1'000'000}) {
    std::string pickle = "}(";
    for (int i = 0; i < count; ++i) pickle += "I" + std::to_string(i) + "\nK\x01";
    const std::string message =
        load("many.pt", bytes_of(zip_file({{"x/data.pkl", pickle + "u."}})));
    EXPECT_EQ(message.empty(), count == 130'000) << message;
  }
}

}  // namespace
}  // namespace facula::io
