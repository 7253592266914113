#include "io/arrays/npy.h"

#include <fmt/core.h>

#include <cstring>

#include "io/file.h"
#include "npy_files.h"
#include "test_files.h"

namespace facula::io {
namespace {

using Dims = std::vector<int64_t>;

NpyArray parse(const std::string& file) {
  static std::vector<uint8_t> bytes;  // what the array refers to
  bytes = bytes_of(file);
  return parse_npy(bytes, "a.npy");
}

TEST(Npy, ReadsHeaderAndPlace) {
  const auto array = parse(npy_file("<f4", "(2, 3)", std::string(24, 'x')));
  EXPECT_EQ(array.dtype, kFloat32);
  EXPECT_EQ(array.shape, (Dims{2, 3}));
  EXPECT_EQ(array.strides, (Dims{3, 1}));
  EXPECT_EQ(array.data.size(), 24u);
  EXPECT_EQ(array.data[23], 'x');
  EXPECT_EQ(parse(npy_file("<f4", "(2, 3)", std::string(24, 'x'), true)).strides, (Dims{1, 2}));
}

TEST(Npy, AllDTypes) {
  const std::pair<const char*, DType> known[] = {
      {"<f4", kFloat32}, {"<f8", kFloat64}, {"<i4", kInt32},   {"<i8", kInt64},
      {"|u1", kUInt8},   {"|b1", kBool},    {"<f2", kFloat16}, {"|i1", kInt8},
      {"<i2", kInt16},   {"=f4", kFloat32}, {">u1", kUInt8},   {"|f4", kFloat32},
  };
  for (const auto& [descr, dtype] : known) {
    const auto array = parse(npy_file(descr, "(3,)", std::string(3 * size_of(dtype), 'x')));
    EXPECT_EQ(array.dtype, dtype) << descr;
  }
}

TEST(Npy, ShapesOfAllRanks) {
  EXPECT_EQ(parse(npy_file("|u1", "()", "x")).shape, Dims{});
  EXPECT_EQ(parse(npy_file("|u1", "(1,)", "x")).shape, Dims{1});
  EXPECT_EQ(parse(npy_file("|u1", "(1,1,1,)", "x")).shape, (Dims{1, 1, 1}));
  EXPECT_EQ(parse(npy_file("|u1", "(2L, 3L)", "xxxxxx")).shape, (Dims{2, 3}));
  const auto empty = parse(npy_file("<f8", "(3, 0, 5)", ""));
  EXPECT_EQ(empty.strides, (Dims{5, 5, 1}));
  EXPECT_TRUE(empty.data.empty());
}

TEST(Npy, AllVersions) {
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }\n";
  for (const char version : {'\1', '\2', '\3'}) {
    EXPECT_EQ(parse(npy_bytes(header, "1234", version)).shape, Dims{1}) << int{version};
  }
  expect_error([&] { parse(npy_bytes(header, "1234", '\4')); }, {"a.npy", "version 4.0"});
  expect_error([&] { parse(npy_bytes(header, "1234", '\0')); }, {"a.npy", "version 0.0"});
}

TEST(Npy, HeadersInOtherForms) {
  for (const char* header :
       {"{'descr':'<i4','fortran_order':False,'shape':(1,)}",
        "{\"shape\": (1,), \"descr\": \"<i4\", \"fortran_order\": True}   \n",
        " { 'fortran_order' : False , 'shape' : ( 1 , ) , 'descr' : '<i4' , } "}) {
    EXPECT_EQ(parse(npy_bytes(header, "1234")).shape, Dims{1}) << header;
  }
}

TEST(Npy, OtherHeadersAreRefused) {
  for (const char* header :
       {"",
        "{",
        "{}",
        "{'descr': '<i4', 'fortran_order': False}",
        "[1]",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} {",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1.0,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (0+1,)}",
        "{'descr': '<i4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<i4', 'fortran_order': Falsehood, 'shape': (1,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '\\x3ci4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (1,)}",
        "{'descr: '<i4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<i4' 'fortran_order': False, 'shape': (1,)}"}) {
    expect_error([&] { parse(npy_bytes(header, "1234")); }, {"a.npy", "npy header"});
  }
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  expect_error([&] { parse(npy_file("|u1", many + ")", "x")); }, {"npy header"});
}

TEST(Npy, OtherArraysAreRefused) {
  for (const char* descr : {"|O", "|O8", "O"}) {
    const bool bare = descr[0] == 'O';
    expect_error([&] { parse(npy_file(descr, "(1,)", "1234")); },
                 {"a.npy", bare ? "dtype 'O'" : "objects"});
  }
  expect_error([&] { parse(npy_file(">f4", "(1,)", "1234")); }, {"big-endian", "astype('<f4')"});
  for (const char* descr : {"<u2", "<c8", "<U1", "|S4", "<M8[ns]", "f4", "", "<", "\x01\xff"}) {
    expect_error([&] { parse(npy_file(descr, "(1,)", "1234")); }, {"a.npy", "dtype"});
  }
  expect_error(
      [] {
        parse(
            npy_bytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"));
      },
      {"a.npy", "structured"});
}

TEST(Npy, SizesMustMatch) {
  expect_error([] { parse(npy_file("<f4", "(2,)", "1234567")); }, {"<f4", "[2]", "7 bytes"});
  expect_error([] { parse(npy_file("<f4", "(2,)", "123456789")); }, {"several arrays"});
  // 2^62 elements of 8 bytes, 2^32 * 2^32 elements: both wrap round to 0 bytes.
  for (const char* shape : {"(4611686018427387904,)", "(4294967296, 4294967296)",
                            "(0, 9223372036854775807, 9223372036854775807)"}) {
    expect_error([&] { parse(npy_file("<f8", shape, "")); }, {"do not match"});
  }
}

TEST(Npy, TruncatedAtEveryByte) {
  const std::string file = npy_file("<f4", "(2, 3)", std::string(24, 'x'));
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_THROW(parse(file.substr(0, size)), IoError) << size;
  }
  expect_error([] { parse("PK\3\4 is a zip"); }, {"a.npy", "does not begin"});
}

TEST(Npy, MapsAFile) {
  const TempFolder folder;
  put(folder / "a.npy",
      npy_file("<i8", "(2,)", std::string("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16)));
  const MappedFile file(folder / "a.npy");
  const auto array = parse_npy(file.bytes(), file.path());
  int64_t values[2];
  std::memcpy(values, array.data.data(), sizeof values);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 2);
}

}  // namespace
}  // namespace facula::io
