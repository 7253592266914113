#include <facula/torch_file.h>

#include <facula/nn.h>

#include <fmt/format.h>

#include <cmath>

#include "io/torch/torch_file.h"
#include "tests/io/test_files.h"
#include "tests/io/zip_files.h"

namespace facula::io {
namespace {

using namespace std::string_literals;

/// A pickled storage: id, type and number of elements.
std::string storage(const std::string& type, int64_t elements, const std::string& key = "0") {
  return "(S'storage'\nctorch\n" + type + "\nS'" + key + "'\nS'cpu'\nI" + std::to_string(elements) +
         "\ntQ";
}

std::string tuple(const std::vector<int64_t>& values) {
  std::string text = "(";
  for (const int64_t value : values) text.append("I").append(std::to_string(value)).append("\n");
  return text + "t";
}

std::string tensor(const std::string& storage, int64_t offset, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor\n(" + storage + "I" + std::to_string(offset) + "\n" +
         tuple(shape) + tuple(strides) + "tR";
}

/// A dict with one entry.
std::string entry(const std::string& key, const std::string& value) {
  return "}(S'" + key + "'\n" + value + "u.";
}

std::string archive(const std::string& pickle, const std::string& data = std::string(16, '\0'),
                    const std::vector<ZipPart>& more = {}) {
  std::vector<ZipPart> parts = {{"x/data.pkl", pickle}, {"x/data/0", data}};
  parts.insert(parts.end(), more.begin(), more.end());
  return zip_file(parts);
}

/// A file of the legacy format with one storage, called 0, of `count` elements.
std::string legacy(const std::string& pickle, char count, const std::string& data) {
  return "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.M\xe9\x03.}." + pickle + "](S'0'\ne." +
         count + std::string(7, '\0') + data;
}

StateDict load(const std::string& file) {
  const auto bytes = bytes_of(file);
  return TorchFileReader(bytes, "a.pt").load();
}

template <class E = IoError>
void expect_refused(const std::string& file, std::initializer_list<std::string_view> parts) {
  expect_error<E>([&] { load(file); }, parts);
}

TEST(TorchFile, SavesAndLoads) {
  const TempFolder folder;
  const std::string path = folder / "a.pt";
  StateDict state;
  const Tensor matrix = arange(12, kFloat32).view({3, 4});
  state.set("layer.0.weight", matrix);
  state.set("layer.0.column", matrix.index({Slice(), 1}));
  state.set("count", tensor(Scalar(7)));
  state.set("empty", empty({0, 3}));
  state.set("flags", ones({2}, kBool));
  save_torch(state, path);
  const std::string first = get(path);
  const StateDict loaded = load_torch(path);
  EXPECT_EQ(loaded.tensor("layer.0.column").to_vector<float>(), (std::vector<float>{1, 5, 9}));
  EXPECT_EQ(loaded.tensor("layer.0.column").data_ptr<float>(),
            loaded.tensor("layer.0.weight").data_ptr<float>() + 1);
  EXPECT_EQ(loaded.tensor("empty").sizes(), IntList({0, 3}));
  EXPECT_EQ(loaded.tensor("count").item<int64_t>(), 7);
  save_torch(loaded, path);
  EXPECT_EQ(get(path), first);
  state.set("epoch", 3);
  expect_error<ValueError>([&] { save_torch(state, path); }, {"'epoch' is an integer"});
  StateDict latin;
  latin.set("caf\xe9", ones({1}));
  expect_error<ValueError>([&] { save_torch(latin, path); }, {"UTF-8"});
  EXPECT_EQ(get(path), first);
}

TEST(TorchFile, OnlyTheUsedPartOfAStorageIsSaved) {
  const TempFolder folder;
  StateDict state;
  const Tensor large = zeros({1000, 1000});
  state.set("a", large[3]);
  state.set("b", large[5]);
  save_torch(state, folder / "a.pt");
  EXPECT_LT(get(folder / "a.pt").size(), 3 * 4000 + 2000u);
  EXPECT_EQ(load_torch(folder / "a.pt").tensor("b").sizes(), IntList({1000}));
}

TEST(TorchFile, ValuesOfAllKinds) {
  const StateDict state = load(
      archive("}(S'none'\nNS'list'\n](I1\nF2.5\neI5\nS'five'\nS''\nI1\nS'a..b'\nI2\nS'empty'\n}"
              "S'od'\nccollections\nOrderedDict\n((lp0\n(S'k'\nI1\nlatRS'device'\nctorch\n"
              "device\n(S'cuda'\nI1\ntRS'dtype'\nctorch\nfloat16\nu."));
  EXPECT_TRUE(state.at("none").get_if<NoneType>());
  EXPECT_EQ(state.integer("list.0"), 1);
  EXPECT_EQ(state.number("list.1"), 2.5);
  EXPECT_EQ(state.text("5"), "five");
  EXPECT_EQ(state.integer("_"), 1);
  EXPECT_EQ(state.integer("a._.b"), 2);
  EXPECT_TRUE(state.dict("empty").empty());
  EXPECT_EQ(state.integer("od.k"), 1);
  EXPECT_EQ(state.text("device"), "cuda:1");
  EXPECT_EQ(state.text("dtype"), "torch.float16");
}

/// A pickle of a dict of NumPy's scalar `x`; `bytes` as UTF-8 text, as torch.save writes it.
std::string scalar(const std::string& dtype, const std::string& bytes,
                   const std::string& order = "<") {
  return entry("x", "cnumpy._core.multiarray\nscalar\n(cnumpy\ndtype\n(S'" + dtype +
                        "'\nI00\nI01\ntR(I3\nS'" + order +
                        "'\nNNNI-1\nI-1\nI0\ntbc_codecs\nencode\n(X" +
                        static_cast<char>(bytes.size()) + "\0\0\0"s + bytes + "S'latin1'\ntRtR");
}

TEST(TorchFile, NumbersOfNumPy) {
  const auto x = [](const std::string& dtype, const std::string& bytes) {
    return load(archive(scalar(dtype, bytes))).at("x");
  };
  EXPECT_EQ(*x("f8", "\xc3\x83\xc3\xb5(\\\xc2\x8f\xc3\x82\xc3\xad?").get_if<double>(), 0.93);
  EXPECT_EQ(*x("f4", "\0\0 \xc3\x80"s).get_if<double>(), -2.5);
  EXPECT_EQ(*x("f2", "\0\xc3\x81"s).get_if<double>(), -2.5);
  EXPECT_EQ(*x("f2", "\x01\0"s).get_if<double>(), std::ldexp(1.0, -24));
  EXPECT_EQ(*x("f2", "\0|"s).get_if<double>(), HUGE_VAL);
  EXPECT_TRUE(std::isnan(*x("f2", "\x01|").get_if<double>()));
  EXPECT_EQ(*x("i8", "\xc3\xbe\xc3\xbf\xc3\xbf\xc3\xbf\xc3\xbf\xc3\xbf\xc3\xbf\xc3\xbf")
                 .get_if<int64_t>(),
            -2);
  EXPECT_EQ(*x("u8", "\x05\0\0\0\0\0\0\0"s).get_if<int64_t>(), 5);
  EXPECT_EQ(*x("u8", "\x05\0\0\0\0\0\0\xc2\x80"s).get_if<Bytes>(),
            (Bytes{5, 0, 0, 0, 0, 0, 0, 0x80, 0}));
  EXPECT_EQ(*x("u1", "\xc3\xbf").get_if<int64_t>(), 255);
  EXPECT_EQ(*x("b1", "\x01").get_if<bool>(), true);
  const StateDict complex = load(archive(scalar("c8", "\0\0\xc2\x80?\0\0\0\xc3\x80"s)));
  EXPECT_EQ(complex.number("x.real"), 1);
  EXPECT_EQ(complex.number("x.imag"), -2);
}

TEST(TorchFile, TypesOfNumPy) {
  const auto type = [](const std::string& order) {
    return archive(entry(
        "x", "cnumpy\ndtype\n(S'f4'\nI00\nI01\ntR(I3\nS'" + order + "'\nNNNI-1\nI-1\nI0\ntb"));
  };
  EXPECT_EQ(load(type(">")).text("x"), ">f4");
  EXPECT_EQ(load(archive(entry("x", "cnumpy\ndtype\n(S'i8'\ntR"))).text("x"), "<i8");
  const auto date = [](const std::string& unit) {
    return load(archive(entry("x",
                              "cnumpy\ndtype\n(S'M8'\nI00\nI01\ntR(I4\nS'<'\nNNNI-1\nI-1\nI0\n(}(" +
                                  unit + "I1\nI1\nttt" + "b")))
        .text("x");
  };
  EXPECT_EQ(date("S'ns'\nI1\n"), "<M8[ns]");
  EXPECT_EQ(date("C\x01sI25\n"), "<M8[25s]");
  EXPECT_EQ(load(archive(entry(
                     "x", "cnumpy\ndtype\n(S'O8'\nI00\nI01\ntR(I3\nS'|'\nNNNI-1\nI-1\nI63\ntb")))
                .text("x"),
            "|O");
  expect_refused(type(""), {"numpy.dtype with arguments"});
  expect_refused(archive(entry("x", "cnumpy\ndtype\n(tR")), {"numpy.dtype with arguments"});
}

TEST(TorchFile, OtherScalarsOfNumPy) {
  const auto other = [](const std::string& pickle, std::string_view dtype) {
    expect_refused(archive(pickle), {"a.pt", "\"x\" is a NumPy scalar", dtype, "float()", "str()"});
  };
  other(scalar("U1", "c\0\0\0"s), "\"<U1\"");
  other(scalar("M8", "12345678"), "\"<M8\"");
  other(scalar("f16", "1234567812345678"), "\"<f16\"");
  other(scalar("f8", "12345678", ">"), "\">f8\"");
  expect_refused(archive(scalar("f8", "1234567")), {"multiarray.scalar with arguments"});
  expect_refused(archive(entry("x", "cnumpy.core.multiarray\nscalar\n(I1\nI2\ntR")),
                 {"multiarray.scalar with arguments"});
}

TEST(TorchFile, ATensorOrStorageAlone) {
  EXPECT_EQ(
      load(archive(tensor(storage("FloatStorage", 4), 0, {2}, {1}) + ".")).tensor("tensor").numel(),
      2);
  EXPECT_EQ(load(archive(storage("LongStorage", 2) + ".")).tensor("tensor").dtype(), kInt64);
  EXPECT_EQ(load(archive("I3\n.")).integer("value"), 3);
}

TEST(TorchFile, TensorsLieWithinTheirStorage) {
  const auto file = [](int64_t offset, const std::vector<int64_t>& shape,
                       const std::vector<int64_t>& strides) {
    return archive(entry("w", tensor(storage("FloatStorage", 4), offset, shape, strides)));
  };
  EXPECT_EQ(load(file(0, {2, 2}, {2, 1})).tensor("w").numel(), 4);
  EXPECT_EQ(load(file(3, {}, {})).tensor("w").numel(), 1);
  EXPECT_EQ(load(file(4, {0}, {1})).tensor("w").numel(), 0);
  EXPECT_EQ(load(file(0, {100}, {0})).tensor("w").numel(), 100);
  constexpr int64_t kHuge = int64_t{1} << 62;
  const auto wrong = [&](int64_t offset, const std::vector<int64_t>& shape,
                         const std::vector<int64_t>& strides) {
    expect_refused(file(offset, shape, strides), {"a.pt"});
  };
  wrong(1, {2, 2}, {2, 1});
  wrong(4, {}, {});
  wrong(5, {0}, {1});
  wrong(-1, {1}, {1});
  wrong(0, {-1}, {1});
  wrong(0, {2}, {-1});
  wrong(0, {2, 2}, {1});
  wrong(0, {2}, {kHuge});
  wrong(0, {1}, {kHuge});
  wrong(0, {kHuge, 4}, {0, 0});
  wrong(0, {kHuge, 4, 0}, {0, 0, 0});
  wrong(0, {kHuge}, {0});
  wrong(kHuge, {1}, {1});
  expect_refused<ShapeError>(file(0, std::vector<int64_t>(9, 1), std::vector<int64_t>(9, 1)),
                             {"\"w\"", "9 dimensions"});
}

TEST(TorchFile, StoragesAreThere) {
  const std::string one = entry("w", tensor(storage("FloatStorage", 4), 0, {4}, {1}));
  expect_refused(archive(one, std::string(15, 'x')), {"a.pt", "\"0\"", "16 bytes", "15 bytes"});
  expect_refused(archive(entry("w", tensor(storage("FloatStorage", 4, "7"), 0, {4}, {1}))),
                 {"\"7\""});
  expect_refused(archive(entry("w", tensor(storage("FloatStorage", -1), 0, {4}, {1}))), {"a.pt"});
  expect_refused(archive(entry("w", tensor(storage("Size", 4), 0, {4}, {1}))), {"a.pt"});
  expect_refused(archive(entry("w", tensor("K\x01", 0, {4}, {1}))), {"a.pt"});
  expect_refused(archive(std::string("(") + tensor(storage("FloatStorage", 4), 0, {1}, {1}) +
                         tensor(storage("FloatStorage", 3), 0, {1}, {1}) + "t."),
                 {"\"0\"", "16 bytes", "12"});
}

TEST(TorchFile, LegacyStoragesCountInTheirElements) {
  const std::string data(16, '\0');
  const std::string floats = entry("w", tensor(storage("FloatStorage", 4), 0, {4}, {1}));
  EXPECT_EQ(load(legacy(floats, 4, data)).tensor("w").numel(), 4);
  expect_refused(legacy(floats, 3, data), {"3 elements", "need 4"});
  // As uint16 and other dtypes without a class of storages are saved.
  const std::string bytes = entry("w", storage("UntypedStorage", 16));
  EXPECT_EQ(load(legacy(bytes, 16, data)).tensor("w").dtype(), kUInt8);
  expect_refused(legacy(bytes, 4, data), {"4 elements", "need 16"});
}

TEST(TorchFile, LackingDTypesAreListedAndNamed) {
  const auto bytes =
      bytes_of(archive(entry("w", tensor(storage("ComplexFloatStorage", 2), 0, {2}, {1}))));
  TorchFileReader reader(bytes, "a.pt");
  EXPECT_EQ(reader.tensors().at(0).dtype, "complex64");
  EXPECT_FALSE(reader.tensors().at(0).facula_dtype);
  expect_error<DTypeError>([&] { reader.load(); }, {"a.pt", "\"w\"", "complex64"});
}

TEST(TorchFile, TensorsWithAttributes) {
  const auto file = [](const std::string& function, const std::string& arguments) {
    return archive(entry("w", "ctorch._tensor\n_rebuild_from_type_v2\n(" + function +
                                  "ctorch\nTensor\n" + arguments + "}tR"));
  };
  const std::string arguments =
      fmt::format("({}I1\n{}{}t", storage("FloatStorage", 4), tuple({2}), tuple({1}));
  const std::string rebuild = "ctorch._utils\n_rebuild_tensor\n";
  EXPECT_EQ(load(file(rebuild, arguments)).tensor("w").numel(), 2);
  expect_refused(file("ctorch\nSize\n", arguments), {"_rebuild_from_type_v2 with arguments"});
  expect_refused(file(rebuild, "I1\n"), {"_rebuild_from_type_v2 with arguments"});
}

TEST(TorchFile, KindsThatFaculaLacksAreNamed) {
  const auto file = [](const std::string& function) {
    return archive(entry(
        "w", "ctorch._utils\n" + function + "\n(ctorch.serialization\n_get_layout\n(S'x'\ntRtR"));
  };
  expect_refused(file("_rebuild_sparse_tensor"), {"\"w\" is a sparse tensor", "to_dense()"});
  expect_refused(file("_rebuild_sparse_csr_tensor"), {"\"w\" is a sparse tensor"});
  expect_refused(file("_rebuild_nested_tensor"), {"\"w\" is a nested tensor"});
  expect_refused(file("_rebuild_meta_tensor_no_storage"), {"\"w\" is a tensor without elements"});
}

TEST(TorchFile, BooleansAreZeroOrOne) {
  const auto state =
      load(archive(entry("w", tensor(storage("BoolStorage", 3), 0, {3}, {1})), "\0\1\xff"s));
  const auto* bytes = static_cast<const uint8_t*>(state.tensor("w").raw_data());
  EXPECT_EQ(bytes[1] + bytes[2], 2);
}

TEST(TorchFile, RefusalsSayWhy) {
  expect_refused("", {"a.pt"});
  expect_refused(zip_file({{"a", "1"}}), {"without a data.pkl"});
  expect_refused(archive("}."s, "", {{"y/data.pkl", "}."}}), {"two pickles"});
  expect_refused(archive("}.N."), {"2 bytes follow the pickle"});
  expect_refused(archive("}.", "", {{"x/byteorder", "big"}}), {"big-endian"});
  expect_refused(archive("cos\nsystem\n(S'true'\ntR."),
                 {"refuses to call \"os.system\"", "state_dict"});
  expect_refused(archive("c__torch__.m\nNet\n)\x81."), {"refuses to call \"__torch__.m.Net\""});
  EXPECT_TRUE(load(archive("c__torch__.m\nNet\n)\x81.", "", {{"x/constants.pkl", ""}})).empty());
  expect_refused("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.M\xe8\x03.", {"version"});
  expect_refused(archive(entry("a", "I1\nS'a.b'\nI2\n")), {"\"a.b\"", "a"});
  // Python's dictionaries hold these; a StateDict would lose one of each pair.
  expect_refused(archive("}(S'a.b'\nI1\nS'a'\nI2\nu."), {"\"a\"", "another entry"});
  expect_refused(archive("}(S'1'\nI1\nI1\nI2\nu."), {"\"1\"", "another entry"});
  EXPECT_EQ(load(archive("}(S'a.b'\nI1\nS'a'\n}(S'c'\nI2\nuu.")).integer("a.c"), 2);
}

/// A list of two lists of two lists ...; one that contains itself; a long name used often.
TEST(TorchFile, AmplificationIsRefused) {
  std::string laughs = "]p0\n";
  for (int i = 0; i < 40; ++i) {
    laughs += "0](g" + std::to_string(i) + "\ng" + std::to_string(i) + "\nep" +
              std::to_string(i + 1) + "\n";
  }
  expect_refused(archive(laughs + "."), {"a.pt", "more memory than its size justifies"});
  expect_refused(archive("]q\0h\0a."s), {"a.pt", "contains itself"});
  const std::string name(100'000, 'n');
  std::string names = "S'" + name + "'\np0\n0]";
  for (int i = 0; i < 1000; ++i) names += "}g0\nI1\nsa";
  expect_refused(archive(names + "."), {"more memory than its size justifies"});
  const std::string zeros(30'000'000, '\0');
  expect_refused(
      zip_file({{"x/data.pkl", entry("w", tensor(storage("ByteStorage", 30'000'000), 0, {1}, {1}))},
                {"x/data/0", zeros, true}}),
      {"packed to a small part"});
}

TEST(TorchFile, ManySmallTensorsAreNoAttack) {
  const TempFolder folder;
  StateDict state;
  constexpr int kCount = 50'000;
  for (int i = 0; i < kCount; ++i) {
    state.set("module.layer" + std::to_string(i) + ".weight", full({}, i));
  }
  save_torch(state, folder / "a.pt");
  const StateDict loaded = load_torch(folder / "a.pt");
  EXPECT_EQ(loaded.flat().size(), static_cast<size_t>(kCount));
  EXPECT_EQ(loaded.tensor("module.layer49999.weight").item<float>(), 49999);
}

TEST(TorchFile, LoadPthListsWhatDoesNotFit) {
  const TempFolder folder;
  const std::string path = folder / "a.pt";
  nn::Sequential saved(nn::Linear({.in = 2, .out = 3}), nn::BatchNorm1d({.features = 3}));
  const StateDict whole = saved.state_dict();
  StateDict state;
  for (const auto& [name, value] : whole.flat()) {
    if (!name.ends_with("num_batches_tracked")) state.set("net." + name, *value);
  }
  save_torch(state, path);
  nn::Sequential model(nn::Linear({.in = 2, .out = 3}), nn::BatchNorm1d({.features = 3}));
  const nn::LoadReport report = model.load_pth(path, {.key_prefix = "net."});
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  EXPECT_EQ(model.state_dict().tensor("0.weight").to_vector<float>(),
            saved.state_dict().tensor("0.weight").to_vector<float>());

  nn::Sequential other(nn::Linear({.in = 2, .out = 4}), nn::Linear({.in = 2, .out = 3}));
  const auto before = other.state_dict().tensor("1.weight").to_vector<float>();
  expect_error<ValueError>([&] { other.load_pth(path, {.key_prefix = "net."}); },
                           {path, "\"0.weight\" has size [3, 2]", "unexpected: "});
  expect_error<ValueError>([&] { other.load_pth(path); },
                           {"missing: 0.weight", "net.0.weight", "set key_prefix = \"net.\""});
  expect_error<ValueError>([&] { other.load_pth(path, {.key_prefix = "net"}); },
                           {path, "\"net\"", "end it in one"});
  expect_error<ValueError>([&] { other.load_pth(path, {.key_prefix = "module."}); },
                           {path, "\"module.\"", "net.0.weight"});
  EXPECT_EQ(other.state_dict().tensor("1.weight").to_vector<float>(), before);
  nn::Sequential larger(nn::Linear({.in = 2, .out = 3}), nn::BatchNorm1d({.features = 3}),
                        nn::Linear({.in = 3, .out = 3}));
  EXPECT_EQ(larger.load_pth(path, {.key_prefix = "net.", .strict = false}).missing,
            (std::vector<std::string>{"2.weight", "2.bias"}));
}

}  // namespace
}  // namespace facula::io
