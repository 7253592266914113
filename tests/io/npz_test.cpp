#include "io/arrays/npz.h"

#include <facula/npy.h>

#include <fmt/core.h>

#include <cstring>
#include <filesystem>

#include "npy_files.h"
#include "test_files.h"
#include "tests/io/memory_growth.h"
#include "tests/io/zip_files.h"
#include "tests/support/expect.h"

namespace facula::io {
namespace {

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

Tensor load(const std::string& file) {
  const auto bytes = bytes_of(file);
  return npy_tensor(read_npy(bytes, "a.npy"), "a.npy");
}

TEST(NpyTensor, RowAndColumnMajorOfBothByteOrders) {
  const std::string little = raw<std::int16_t>({1, 2, 3, 4, 5, 6});
  std::string big = little;
  for (std::size_t i = 0; i < big.size(); i += 2) std::swap(big[i], big[i + 1]);
  for (const bool is_big : {false, true}) {
    const std::string descr = is_big ? ">i2" : "<i2", &data = is_big ? big : little;
    expect_values(load(npy_file(descr, "(2, 3)", data)), {1, 2, 3, 4, 5, 6});
    const Tensor columns = load(npy_file(descr, "(2, 3)", data, true));
    expect_values(columns, {1, 3, 5, 2, 4, 6});
    EXPECT_TRUE(columns.is_contiguous());
    expect_values(load(npy_file(descr, "(6,)", data, true)), {1, 2, 3, 4, 5, 6});
    expect_values(load(npy_file(descr, "(1, 2, 3)", data, true)), {1, 3, 5, 2, 4, 6});
  }
}

TEST(NpyTensor, ScalarsEmptyOnesAndBooleans) {
  expect_values(load(npy_file("<f8", "()", raw({2.5}))), {2.5});
  EXPECT_EQ(load(npy_file("<f4", "(0, 3)", "", true)).sizes().vec(),
            (std::vector<std::int64_t>{0, 3}));
  const Tensor flags = load(npy_file("|b1", "(3,)", std::string("\0\1\7", 3)));
  EXPECT_EQ(static_cast<const char*>(flags.raw_data())[2], 1);
}

TEST(NpyTensor, DTypesThatFaculaLacks) {
  EXPECT_ERROR(DTypeError, "<u2, which Facula lacks", load(npy_file("<u2", "(1,)", "12")));
  EXPECT_ERROR(DTypeError, "<c8", load(npy_file("<c8", "(1,)", "12345678")));
  EXPECT_ERROR(ShapeError, "9 dimensions",
               load(npy_file("|u1", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "1")));
}

TEST(Npz, RoundTrip) {
  TempFolder folder;
  StateDict state;
  state.set("layer.weight", randn({3, 5}));
  state.set("layer.steps", zeros({}, kInt64));
  state.set("half", ones({2}).to(kFloat16));
  state.set("mask", ones({4}).to(kBool));
  state.set("empty", zeros({0, 2}));
  state.set("columns", randn({4, 3}).t());
  state.set("dense/kernel:0", ones({1}));
  save_npz(state, folder / "a.npz");
  const StateDict loaded = load_npz(folder / "a.npz");
  ASSERT_EQ(loaded.flat().size(), state.flat().size());
  for (const auto& [name, value] : state.flat())
    expect_equal(loaded.tensor(name), *value->get_if<Tensor>());
  save_npy(state.tensor("columns"), folder / "a.npy");
  expect_equal(load_npy(folder / "a.npy"), state.tensor("columns"));
}

TEST(Npz, WhatCannotBeWritten) {
  TempFolder folder;
  StateDict state;
  state.set("b", ones({1}).to(kBFloat16));
  EXPECT_ERROR(DTypeError, "bfloat16", save_npz(state, folder / "a.npz"));
  state.set("b", "text");
  EXPECT_ERROR(ValueError, "'b' is a string", save_npz(state, folder / "a.npz"));
  StateDict latin;
  latin.set("caf\xe9", ones({1}));
  EXPECT_ERROR(ValueError, "UTF-8", save_npz(latin, folder / "a.npz"));
  StateDict nul, outside;
  nul.set("first", ones({1}));
  nul.set(std::string("a\0b", 3), ones({1}));
  EXPECT_ERROR(ValueError, R"("a\u0000b" has a NUL)", save_npz(nul, folder / "a.npz"));
  outside.set("/tmp/a", ones({1}));
  EXPECT_ERROR(ValueError, R"("/tmp/a" begins with '/')", save_npz(outside, folder / "a.npz"));
  EXPECT_ERROR(ValueError, "save_npy", save_npy(Tensor(), folder / "a.npy"));
  EXPECT_TRUE(folder.names().empty());
}

/// An archive whose members have these names and contents.
std::string archive(const TempFolder& folder,
                    std::initializer_list<std::pair<std::string, std::string>> members) {
  const std::string path = folder / "made.npz";
  AtomicFile file(path);
  ZipWriter zip(file);
  for (const auto& [name, content] : members) zip.add(name, content);
  zip.finish();
  file.commit();
  return path;
}

TEST(Npz, OtherArchivesAndDamagedMembers) {
  TempFolder folder;
  const std::string one = npy_file("<f4", "(1,)", raw({1.0f}));
  EXPECT_ERROR(IoError, "other than .npy", load_npz(archive(folder, {{"a.npy", one}, {"b", ""}})));
  EXPECT_ERROR(IoError, "\"a.npy\"", load_npz(archive(folder, {{"a.npy", "nonsense"}})));
  EXPECT_ERROR(IoError, "could run code",
               load_npz(archive(folder, {{"a.npy", npy_file("|O", "(1,)", "12345678")}})));
  EXPECT_ERROR(IoError, "cannot be used", load_npz(archive(folder, {{"a..b.npy", one}})));
  EXPECT_ERROR(IoError, "cannot be used",
               load_npz(archive(folder, {{"a.b.npy", one}, {"a.npy", one}})));
  EXPECT_TRUE(load_npz(archive(folder, {})).empty());
}

TEST(Npz, MemoryIsInProportion) {
  TempFolder folder;
  const std::string path = folder / "a.npz";
  {
    const std::string zeros(30'000'000, '\0');
    put(path, zip_file({{"a.npy", npy_file(">f8", "(1250, 3000)", zeros, true), true}}));
  }
  expect_memory_within_limit(std::filesystem::file_size(path), [&] {
    EXPECT_EQ(load_npz(path).tensor("a").sizes(), IntList({1250, 3000}));
  });
  put(path,
      zip_file({{"a.npy", npy_file("|u1", "(40000000,)", std::string(40'000'000, '\0')), true}}));
  expect_memory_within_limit(std::filesystem::file_size(path),
                             [&] { EXPECT_ERROR(IoError, "would decompress to", load_npz(path)); });
}

TEST(Npz, FilesOfOtherPrograms) {
  FACULA_REQUIRE_SHARED_DATA(data, "models/models.tar.xz");
  TempFolder folder;
  const std::string command =
      fmt::format("tar -xf {} -C {} --wildcards '*.npy' '*.npz' 2>/dev/null", data, folder.path());
  ASSERT_EQ(std::system(command.c_str()), 0);
  int loaded = 0, refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    const std::string path = entry.path();
    if (!entry.is_regular_file() || path.find(".np") == std::string::npos) continue;
    SCOPED_TRACE(path);
    const auto read = [&] {
      path.ends_with("z") ? load_npz(path).empty() : load_npy(path).defined();
    };
    if (path.find("objarr") != std::string::npos) {
      expect_error(read, {"could run code"});
      ++refused;
    } else if (path.find("uint16") != std::string::npos) {
      expect_error<DTypeError>(read, {"<u2"});
      ++refused;
    } else {
      EXPECT_NO_THROW(read());
      ++loaded;
    }
  }
  EXPECT_GE(loaded, 8);
  EXPECT_GE(refused, 6);
}

}  // namespace
}  // namespace facula::io
