#include <facula/safetensors.h>

#include <fmt/core.h>

#include <cstring>
#include <thread>

#include <facula/autograd.h>

#include "io/safetensors/safetensors.h"
#include "test_files.h"
#include "tests/io/memory_growth.h"
#include "tests/support/expect.h"
#include "tests/support/problems.h"

namespace facula::io {
namespace {

/// Three tensors, of which Facula lacks one dtype.
std::string sample_file(const TempFolder& folder) {
  std::vector<float> floats(12);
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i);
  const std::vector<uint8_t> flags = {1, 0, 1}, wide(16, 7);
  const std::span float_bytes(reinterpret_cast<const uint8_t*>(floats.data()), 48);
  const std::string path = folder / "m.safetensors";
  write_safetensors(path,
                    std::vector<SafetensorsEntry>{{"w", "F32", {4, 3}, float_bytes},
                                                  {"mask", "BOOL", {3}, flags},
                                                  {"u", "U64", {2}, wide},
                                                  {"none", "F32", {0, 5}, {}}},
                    {{"format", "pt"}});
  return path;
}

/// A file whose float32 tensor begins at an odd address.
std::string unaligned_file(const TempFolder& folder) {
  std::string header = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("w":{"dtype":"F32","shape":[3,1],"data_offsets":[1,13]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  const float values[3] = {1, 2, 3};
  file += header + "\5" + std::string(reinterpret_cast<const char*>(values), sizeof values);
  put(folder / "odd", file);
  return folder / "odd";
}

TEST(SafetensorsFile, TellsWhatIsInIt) {
  TempFolder folder;
  const SafetensorsFile file(sample_file(folder));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"u", "none", "w", "mask"}));
  EXPECT_TRUE(file.contains("mask"));
  EXPECT_FALSE(file.contains("Mask"));
  const TensorInfo info = file.info("u");
  EXPECT_EQ(info.dtype, "U64");
  EXPECT_EQ(info.shape, std::vector<int64_t>{2});
  EXPECT_EQ(info.bytes, 16u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_ERROR(ValueError, "no tensor \"x\"", file.info("x"));
  EXPECT_ERROR(ValueError, "no tensor \"x\"", file.tensor("x"));
  EXPECT_ERROR(DTypeError, "U64", file.tensor("u"));
  EXPECT_ERROR(DTypeError, "\"u\" has dtype U64", file.state_dict());
  EXPECT_ERROR(DTypeError, "\"u\" has dtype U64", load_safetensors(folder / "m.safetensors"));
}

TEST(SafetensorsFile, TensorsAreViewsOfTheMappingAndOutliveTheFile) {
  TempFolder folder;
  const std::string path = sample_file(folder);
  const std::string before = get(path);
  Tensor w, again, mask;
  {
    const SafetensorsFile file(path);
    w = file.tensor("w");
    again = file.tensor("w");
    mask = file.tensor("mask");
    EXPECT_EQ(file.tensor("none").sizes().vec(), (std::vector<int64_t>{0, 5}));
  }
  std::filesystem::remove(path);
  expect_values(w, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  expect_values(mask, {1, 0, 1});
  EXPECT_EQ(w.raw_data(), again.raw_data()) << "no copy";
  put(path, before);
}

TEST(SafetensorsFile, WritesStayInTheProcess) {
  TempFolder folder;
  const std::string path = sample_file(folder);
  const std::string before = get(path);
  const SafetensorsFile file(path);
  Tensor w = file.tensor("w");
  const Tensor other = file.tensor("w");
  const std::uint32_t version = other.version();
  w.add_(1);
  EXPECT_EQ(other[0][0].item(), 1) << "tensors of one name share their elements";
  EXPECT_GT(other.version(), version) << "and the count of writes";
  EXPECT_EQ(get(path), before);
  EXPECT_EQ(SafetensorsFile(path).tensor("w")[0][0].item(), 0);
}

TEST(SafetensorsFile, WeightsOfAMappingTrain) {
  TempFolder folder;
  const SafetensorsFile file(sample_file(folder));
  Tensor w = file.tensor("w").requires_grad_();
  (w * w).sum().backward();
  expect_values(w.grad(), {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22});
  EXPECT_FALSE(file.tensor("w").requires_grad());
}

TEST(SafetensorsFile, Slices) {
  TempFolder folder;
  const SafetensorsFile file(sample_file(folder));
  const Tensor rows = file.slice("w", 1, 3);
  expect_values(rows, {3, 4, 5, 6, 7, 8});
  EXPECT_EQ(rows.raw_data(), file.tensor("w")[1].raw_data());
  EXPECT_EQ(file.slice("w", 4, 4).numel(), 0);
  EXPECT_ERROR(IndexError, "[1, 5) of tensor \"w\" of shape [4, 3]", file.slice("w", 1, 5));
  EXPECT_ERROR(IndexError, "[-1, 1)", file.slice("w", -1, 1));
  EXPECT_ERROR(IndexError, "[2, 1)", file.slice("w", 2, 1));
}

TEST(SafetensorsFile, MovedAway) {
  TempFolder folder;
  SafetensorsFile file(sample_file(folder));
  const SafetensorsFile other = std::move(file);
  EXPECT_EQ(other.names().size(), 4u);
  // NOLINTBEGIN(bugprone-use-after-move): an error
  EXPECT_ERROR(ValueError, "SafetensorsFile::names: the file was moved away", file.names());
  EXPECT_ERROR(ValueError, "contains: the file was moved", file.contains("w"));
  EXPECT_ERROR(ValueError, "info: the file was moved", file.info("w"));
  EXPECT_ERROR(ValueError, "tensor: the file was moved", file.tensor("w"));
  EXPECT_ERROR(ValueError, "slice: the file was moved", file.slice("w", 0, 1));
  EXPECT_ERROR(ValueError, "state_dict: the file was moved", file.state_dict());
  EXPECT_ERROR(ValueError, "metadata: the file was moved", file.metadata());
  // NOLINTEND(bugprone-use-after-move)
  file = SafetensorsFile(folder / "m.safetensors");
  EXPECT_EQ(file.names(), other.names());
}

TEST(SafetensorsFile, UnalignedTensorsAreCopies) {
  TempFolder folder;
  const std::string path = unaligned_file(folder);
  const SafetensorsFile file(path);
  const Tensor w = file.tensor("w");
  expect_values(w, {1, 2, 3});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(w.raw_data()) % 4, 0u);
  expect_values(file.slice("w", 1, 3), {2, 3});
  const StateDict state = load_safetensors(path);
  expect_values(state.tensor("w"), {1, 2, 3});
  expect_values(state.tensor("b"), {5});
}

TEST(SafetensorsFile, TheLoadIsACopy) {
  TempFolder folder;
  StateDict saved;
  // Larger than a slice of the parallel read, and not a multiple of it.
  for (const int rows : {1, 100'000, 3, 300'001})
    saved.set(fmt::format("t{}", rows), randn({rows, 3}));
  saved.set("empty", zeros({0}));
  save_safetensors(saved, folder / "m", {{"epoch", "3"}});
  EXPECT_EQ(SafetensorsFile(folder / "m").metadata().at("epoch"), "3");
  const StateDict loaded = load_safetensors(folder / "m");
  put(folder / "m", std::string(10'000'000, 'x'));
  ASSERT_EQ(loaded.flat().size(), saved.flat().size());
  for (const auto& [name, value] : saved.flat()) {
    expect_equal(loaded.tensor(name), *value->get_if<Tensor>());
  }
}

TEST(SafetensorsFile, ManyThreadsMayAsk) {
  TempFolder folder;
  const SafetensorsFile file(sample_file(folder));
  std::vector<Tensor> got(8);
  std::vector<std::thread> threads;
  for (Tensor& tensor : got) threads.emplace_back([&] { tensor = file.tensor("w"); });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& tensor : got) EXPECT_EQ(tensor.raw_data(), got[0].raw_data());
}

TEST(SafetensorsFile, TooManyDimensionsForATensor) {
  TempFolder folder;
  const std::vector<uint8_t> data(4);
  write_safetensors(folder / "m", std::vector<SafetensorsEntry>{
                                      {"deep", "F32", std::vector<int64_t>(9, 1), data}});
  EXPECT_ERROR(ShapeError, "\"deep\" has 9 dimensions", load_safetensors(folder / "m"));
  EXPECT_EQ(SafetensorsFile(folder / "m").info("deep").shape.size(), 9u);
}

/// A file of many entries without data; `entry` gives the text of each.
template <class Entry>
void put_entries(const std::string& path, int count, const Entry& entry) {
  std::string header = "{";
  for (int i = 0; i < count; ++i) {
    if (i > 0) header += ',';
    header += entry(i);
  }
  header += '}';
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  put(path, file + header);
}

TEST(SafetensorsFile, MemoryIsInProportionHoweverTinyTheTensors) {
  FACULA_NOTHING_FOR_TSAN();
  TempFolder folder;
  const std::string path = folder / "m";
  const auto tensor = [](const std::string& name) {
    return fmt::format(R"("{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", name);
  };
  const auto load = [&] {
    bool loaded = true;
    expect_memory_within_limit(std::filesystem::file_size(path), [&] {
      try {
        load_safetensors(path);
      } catch (const IoError& error) {
        EXPECT_NE(std::strstr(error.what(), "more memory than its size justifies"), nullptr);
        loaded = false;
      }
    });
    return loaded;
  };
  const std::string room(300, ' ');
  for (const int count : {100'000, 200'000}) {
    SCOPED_TRACE(count);
    put_entries(path, count, [&](int i) { return tensor(std::to_string(i)); });
    EXPECT_EQ(load(), count == 100'000);
    put_entries(path, count, [&](int i) { return tensor(fmt::format("a{}.{}", i / 2, i % 2)); });
    EXPECT_EQ(load(), count == 100'000);
    put_entries(path, count, [&](int i) { return tensor(std::to_string(i)) + room; });
    EXPECT_TRUE(load());
  }
  for (const int count : {100'000, 300'000}) {
    SCOPED_TRACE(count);
    put_entries(path, count, [&](int i) {
      return fmt::format(R"({}"{}":""{})", i == 0 ? R"("__metadata__":{)" : "", i,
                         i + 1 == count ? "}" : "");
    });
    EXPECT_EQ(load(), count == 100'000);
  }
}

TEST(SafetensorsFile, MappingNeedsNoMemory) {
  TempFolder folder;
  // A sparse file of 8 GiB: 4 of zeros are U8, 4 are F32.
  const std::int64_t size = std::int64_t{4} << 30;
  std::string header = R"({"a":{"dtype":"U8","shape":[4294967296],"data_offsets":[0,4294967296]},)"
                       R"("b":{"dtype":"F32","shape":[1073741824],)"
                       R"("data_offsets":[4294967296,8589934592]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  put(folder / "big", file + header);
  std::filesystem::resize_file(folder / "big",
                               8 + header.size() + 2 * static_cast<std::uint64_t>(size));
  const SafetensorsFile big(folder / "big");
  EXPECT_EQ(big.tensor("a").numel(), size);
  Tensor last = big.slice("b", size / 4 - 2, size / 4);
  last.fill_(2);
  expect_values(big.tensor("b")[size / 4 - 1], {2});
}

}  // namespace
}  // namespace facula::io
