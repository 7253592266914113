#include <cstring>

#include <facula/data/dataset.h>
#include <facula/error.h>

#include "set_files.h"
#include "tests/io/npy_files.h"

namespace facula::data {
namespace {

using io::expect_error;
using io::npy_file;
using io::put;
using io::TempFolder;

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

std::vector<double> values(const Value& value) {
  return std::get<Tensor>(value).to_vector<double>();
}

TEST(NpyDataset, RowsOfEveryArray) {
  const TempFolder folder;
  put(folder / "x.npy", npy_file("<f4", "(3, 2)", raw<float>({0, 1, 2, 3, 4, 5})));
  put(folder / "y.npy", npy_file("<i8", "(3,)", raw<std::int64_t>({-7, 8, 9})));
  put(folder / "z.npy", npy_file("<f8", "(3,)", raw<double>({0.25, 0.5, 0.75})));
  const auto set = npy_dataset({folder / "x.npy", folder / "y.npy", folder / "z.npy"});
  EXPECT_EQ(set->size(), 3);
  EXPECT_EQ(set->source(1), folder / "x.npy");
  Sample sample = set->get(1);
  ASSERT_EQ(sample.size(), 3u);
  EXPECT_EQ(std::get<Tensor>(sample[0]).dtype(), kFloat32);
  EXPECT_EQ(values(sample[0]), (std::vector<double>{2, 3}));
  EXPECT_EQ(std::get<std::int64_t>(sample[1]), 8);
  EXPECT_EQ(std::get<Tensor>(sample[2]).dtype(), kFloat64);
  EXPECT_EQ(std::get<Tensor>(sample[2]).dim(), 0);
  EXPECT_EQ(std::get<Tensor>(sample[2]).item(), 0.5);
  set->load(0, sample);
  EXPECT_EQ(std::get<std::int64_t>(sample[1]), -7);
  EXPECT_THROW(set->get(3), IndexError);
}

TEST(NpyDataset, IntegersOfAllSizes) {
  const TempFolder folder;
  const auto second = [&](const char* descr, const std::string& data) {
    put(folder / "a.npy", npy_file(descr, "(2,)", data));
    return std::get<std::int64_t>(npy_dataset({folder / "a.npy"})->get(1)[0]);
  };
  EXPECT_EQ(second("<i4", raw<std::int32_t>({1, -2})), -2);
  EXPECT_EQ(second("<i2", raw<std::int16_t>({1, -2})), -2);
  EXPECT_EQ(second("|i1", raw<std::int8_t>({1, -2})), -2);
  EXPECT_EQ(second("|u1", raw<std::uint8_t>({1, 254})), 254);
}

TEST(NpyDataset, FortranOrder) {
  const TempFolder folder;
  // Element (i, j, k) of shape [2, 3, 2] is 100 i + 10 j + k.
  put(folder / "a.npy",
      npy_file("<i4", "(2, 3, 2)",
               raw<std::int32_t>({0, 100, 10, 110, 20, 120, 1, 101, 11, 111, 21, 121}), true));
  const auto set = npy_dataset({folder / "a.npy"});
  EXPECT_EQ(std::get<Tensor>(set->get(1)[0]).sizes(), IntList({3, 2}));
  EXPECT_EQ(values(set->get(1)[0]), (std::vector<double>{100, 101, 110, 111, 120, 121}));
}

TEST(NpyDataset, BooleansAreZeroOrOne) {
  const TempFolder folder;
  put(folder / "rows.npy", npy_file("|b1", "(2, 3)", std::string("\x00\x01\x02\xff\x00\x80", 6)));
  put(folder / "turned.npy",
      npy_file("|b1", "(2, 3)", std::string("\x00\xff\x01\x00\x02\x80", 6), true));
  put(folder / "one.npy", npy_file("|b1", "(2,)", std::string("\x00\x07", 2)));
  const auto set = npy_dataset({folder / "rows.npy", folder / "turned.npy", folder / "one.npy"});
  const auto bytes = [&](std::int64_t row, std::size_t field) {
    const Tensor tensor = std::get<Tensor>(set->get(row)[field]);
    EXPECT_EQ(tensor.dtype(), kBool);
    const auto* data = static_cast<const std::uint8_t*>(tensor.raw_data());
    return std::vector<int>(data, data + tensor.numel());
  };
  for (const std::size_t field : {0, 1}) {
    EXPECT_EQ(bytes(0, field), (std::vector<int>{0, 1, 1}));
    EXPECT_EQ(bytes(1, field), (std::vector<int>{1, 0, 1}));
  }
  EXPECT_EQ(bytes(1, 2), (std::vector<int>{1}));
}

TEST(NpyDataset, RowsMayBeWrittenTo) {
  const TempFolder folder;
  put(folder / "a.npy", npy_file("|u1", "(1, 2)", "\x05\x06"));
  const auto set = npy_dataset({folder / "a.npy"});
  Sample sample = set->get(0);
  std::get<Tensor>(sample[0]).fill_(0);
  EXPECT_EQ(values(set->get(0)[0]), (std::vector<double>{5, 6}));
}

TEST(NpyDataset, ChecksItsArrays) {
  const TempFolder folder;
  const auto open = [&](const std::string& file) {
    put(folder / "b.npy", file);
    npy_dataset({folder / "a.npy", folder / "b.npy"});
  };
  put(folder / "a.npy", npy_file("|u1", "(2, 1)", "xy"));
  expect_error<ShapeError>([&] { open(npy_file("|u1", "(3,)", "xyz")); },
                           {"b.npy has 3 rows", "a.npy has 2"});
  expect_error<ShapeError>([&] { open(npy_file("|u1", "()", "x")); }, {"b.npy", "no rows"});
  expect_error<ShapeError>([&] { open(npy_file("|u1", "(1,1,1,1,1,1,1,1,1)", "x")); },
                           {"b.npy", "9 dimensions"});
  expect_error<ShapeError>([&] { open(npy_file("|u1", "(9223372036854775807, 0)", "")); },
                           {"b.npy", "without elements"});
  expect_error([&] { open(npy_file("|O", "(2,)", "xy")); }, {"b.npy", "objects"});
  expect_error([&] { npy_dataset({folder / "absent.npy"}); }, {"absent.npy"});
  expect_error<ValueError>([] { npy_dataset({}); }, {"at least one"});
}

TEST(NpyDataset, EmptyArraysMakeEmptySets) {
  const TempFolder folder;
  put(folder / "a.npy", npy_file("<f4", "(0, 5)", ""));
  const auto set = npy_dataset({folder / "a.npy"});
  EXPECT_EQ(set->size(), 0);
  EXPECT_THROW(set->get(0), IndexError);
}

}  // namespace
}  // namespace facula::data
