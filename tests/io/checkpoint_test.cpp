#include <facula/checkpoint.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <facula/generator.h>
#include <facula/safetensors.h>

#include "io/state_json.h"
#include "test_files.h"

namespace facula {
namespace {

using io::expect_error;
using io::TempFolder;

StateDict sample() {
  manual_seed(5);
  StateDict state;
  state.set("zebra", true);
  state.set("model.fc.weight", randn({3, 4}));
  state.set("model.fc.steps", arange(0, 6, 1, kInt64).reshape({2, 3}));
  state.set("model.empty", zeros({0, 7}, kUInt8));
  state.set("model.scalar", full({}, 2.5, kFloat64));
  state.set("optimizer.lr", 0.1);
  state.set("optimizer.one", 1.0);
  state.set("optimizer.tiny", 4.9e-324);
  state.set("optimizer.large", -1.7976931348623157e308);
  state.set("optimizer.nan", std::nan(""));
  state.set("optimizer.inf", -std::numeric_limits<double>::infinity());
  state.set("numbers.least", std::numeric_limits<std::int64_t>::min());
  state.set("numbers.no", false);
  state.set("text", "quote \" back\\slash \n\t\x01 \xc3\xa9 \xe2\x82\xac");
  state.set("latin", std::string("caf\xe9"));
  state.set("bytes", Bytes{0, 255, 16});
  state.set("nothing", StateDict());
  state.set("a", 7);
  state.set("optimizer.nothing", None);
  return state;
}

/// All of a state as text, tensors with their bits.
std::string text_of(const StateDict& state) {
  return io::format_state_json(state, [](const std::string& name, const Tensor& tensor) {
    std::string bits = name + " " + name_of(tensor.dtype()) + tensor.sizes().str();
    const Tensor dense = tensor.contiguous();
    const auto* bytes = static_cast<const char*>(dense.raw_data());
    for (std::int64_t i = 0; i < dense.nbytes(); ++i) bits += std::to_string(bytes[i]) + ",";
    return bits;
  });
}

TEST(Checkpoint, GivesEverythingBackInOrder) {
  const TempFolder folder;
  save_checkpoint(sample(), folder / "a.safetensors");
  const StateDict loaded = load_checkpoint(folder / "a.safetensors");
  EXPECT_EQ(text_of(loaded), text_of(sample()));
  EXPECT_EQ(loaded.entries().front().first, "zebra");
  EXPECT_TRUE(std::isnan(loaded.number("optimizer.nan")));
  EXPECT_EQ(loaded.number("optimizer.tiny"), 4.9e-324);
  EXPECT_EQ(loaded.text("latin"), "caf\xe9");
  EXPECT_TRUE(loaded.at("optimizer.nothing").get_if<NoneType>());
}

TEST(Checkpoint, EqualStatesGiveEqualFiles) {
  const TempFolder folder;
  save_checkpoint(sample(), folder / "a");
  save_checkpoint(load_checkpoint(folder / "a"), folder / "b");
  EXPECT_EQ(io::get(folder / "a"), io::get(folder / "b"));
}

TEST(Checkpoint, IsASafetensorsFile) {
  const TempFolder folder;
  StateDict state;
  state.set("model.weight", arange(0, 4, 1, kFloat32));
  save_checkpoint(state, folder / "a");
  EXPECT_EQ(load_safetensors(folder / "a").tensor("model.weight").to_vector<float>(),
            (std::vector<float>{0, 1, 2, 3}));
}

TEST(Checkpoint, NonContiguousTensorsAreSavedAsTheyLook) {
  const TempFolder folder;
  StateDict state;
  state.set("t", arange(0, 6, 1, kFloat32).reshape({2, 3}).transpose(0, 1));
  save_checkpoint(state, folder / "a");
  EXPECT_EQ(load_checkpoint(folder / "a").tensor("t").to_vector<float>(),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Checkpoint, BooleansAreZeroOrOne) {
  const TempFolder folder;
  StateDict state;
  state.set("mask", zeros({3}, kBool));
  static_cast<std::uint8_t*>(state.tensor("mask").raw_data())[2] = 7;
  save_checkpoint(state, folder / "a");
  const Tensor mask = load_checkpoint(folder / "a").tensor("mask");
  const auto* bytes = static_cast<const std::uint8_t*>(mask.raw_data());
  EXPECT_EQ(bytes[0] | bytes[1], 0);
  EXPECT_EQ(bytes[2], 1);
}

TEST(Checkpoint, HoldsModelsOfManyTensors) {
  const TempFolder folder;
  StateDict state;
  for (int i = 0; i < 20'000; ++i) {
    state.set("model.blocks." + std::to_string(i) + ".scale", full({1}, i));
  }
  save_checkpoint(state, folder / "a");
  const StateDict loaded = load_checkpoint(folder / "a");
  EXPECT_EQ(loaded.tensor("model.blocks.19999.scale").item(), 19'999);
}

/// A number below so many trees, of which the top is the first.
StateDict nested(int levels) {
  StateDict state;
  state.set("value", 1);
  for (int i = 1; i < levels; ++i) {
    StateDict outer;
    outer.set("tree", std::move(state));
    state = std::move(outer);
  }
  return state;
}

TEST(Checkpoint, WhatItSavesItLoads) {
  const TempFolder folder;
  save_checkpoint(nested(63), folder / "a");
  EXPECT_EQ(text_of(load_checkpoint(folder / "a")), text_of(nested(63)));
  expect_error<ValueError>([&] { save_checkpoint(nested(64), folder / "b"); }, {"64 levels"});
}

TEST(Checkpoint, RefusesWhatCannotBeSaved) {
  const TempFolder folder;
  StateDict undefined, name;
  undefined.set("a.b", Tensor());
  expect_error<ValueError>([&] { save_checkpoint(undefined, folder / "a"); }, {"a.b", "undefined"});
  name.set("caf\xe9", 1);
  expect_error<ValueError>([&] { save_checkpoint(name, folder / "a"); }, {"UTF-8"});
  EXPECT_TRUE(folder.names().empty());
}

TEST(Checkpoint, EveryFlippedBitAndEveryTruncationIsNoticed) {
  const TempFolder folder;
  StateDict state;
  state.set("w", arange(0, 3, 1, kFloat32));
  state.set("v", arange(0, 3, 1, kInt32));
  state.set("lr", 0.5);
  save_checkpoint(state, folder / "good");
  const std::string good = io::get(folder / "good");
  for (std::size_t i = 0; i < good.size(); ++i) {
    const auto bit = i * 5 % 8;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
    io::put(folder / "bad", bad);
    try {
      load_checkpoint(folder / "bad");
      ADD_FAILURE() << "bit " << bit << " of byte " << i << " is not noticed";
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find("bad"), std::string::npos);
    }
  }
  for (std::size_t size = 0; size < good.size(); size += 7) {
    io::put(folder / "short", good.substr(0, size));
    EXPECT_THROW(load_checkpoint(folder / "short"), IoError) << size;
  }
}

TEST(Checkpoint, NamesTheDamagedTensor) {
  const TempFolder folder;
  StateDict state;
  state.set("model.first", zeros({8}));
  state.set("model.second", zeros({8}));
  save_checkpoint(state, folder / "a");
  std::string file = io::get(folder / "a");
  file.back() = 1;
  io::put(folder / "a", file);
  expect_error([&] { load_checkpoint(folder / "a"); },
               {folder / "a", "damaged", "model.second", "checksum"});
}

TEST(Checkpoint, RefusesOtherFilesAndVersions) {
  const TempFolder folder;
  StateDict state;
  state.set("w", zeros({2}));
  save_safetensors(state, folder / "weights");
  expect_error([&] { load_checkpoint(folder / "weights"); },
               {"weights", "no checkpoint", "load_safetensors"});
  save_checkpoint(state, folder / "a");
  std::string file = io::get(folder / "a");
  const std::string version = R"("version":"1")";
  file[file.find(version) + version.size() - 2] = '2';
  io::put(folder / "a", file);
  expect_error([&] { load_checkpoint(folder / "a"); }, {"version", "\"2\"", "reads 1"});
  expect_error([&] { load_checkpoint(folder / "none"); }, {"none", "No such file"});
}

StateDict parse(std::string_view json) {
  return io::parse_state_json(json, "source",
                              [](const std::string&, const std::string&) { return zeros({1}); });
}

TEST(StateJson, AcceptsAnyLayoutOfTheText) {
  const StateDict state = parse(R"( { "a" : { "b" : -3 ,
      "c" : 1e-3 } , "t" : "\u00e9\/" } )");
  EXPECT_EQ(state.integer("a.b"), -3);
  EXPECT_EQ(state.number("a.c"), 1e-3);
  EXPECT_EQ(state.text("t"), "\xc3\xa9/");
}

TEST(StateJson, RefusesEverythingElse) {
  const std::string deep = [] {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "{\"a\":";
    return text;
  }();
  for (const std::string& json : {std::string(""),
                                  std::string("{"),
                                  std::string("[]"),
                                  std::string("{\"a\":1,}"),
                                  std::string("{\"a\":1}x"),
                                  std::string("{\"a\":1,\"a\":2}"),
                                  std::string("{\"a.b\":1}"),
                                  std::string("{\"\":1}"),
                                  std::string("{\"a\":nul}"),
                                  std::string("{\"a\":[1]}"),
                                  std::string("{\"a\":01x}"),
                                  std::string("{\"a\":9223372036854775808}"),
                                  std::string("{\"a\":\"\n\"}"),
                                  std::string("{\"a\":\"\\ud800\"}"),
                                  std::string("{\"a\":\"\\u12\"}"),
                                  std::string("{\"a\":{\".bytes\":\"123\"}}"),
                                  std::string("{\"a\":{\".bytes\":\"1g\"}}"),
                                  std::string("{\"a\":{\".what\":\"1\"}}"),
                                  std::string("{\"a\":{\"b\":1,\".bytes\":\"11\"}}"),
                                  std::string("{\".bytes\":\"11\"}"),
                                  std::string("{\"a\":{\".number\":\"1\"}}"),
                                  std::string("{\"a\":tru}"),
                                  deep}) {
    EXPECT_THROW(parse(json), IoError) << json;
  }
}

TEST(StateJson, SmallEntriesWithoutEndAreRefusedOnBothSides) {
  StateDict state;
  for (int i = 0; i < 300'000; ++i) state.set("k" + std::to_string(i), 1);
  expect_error<ValueError>([&] { text_of(state); }, {"300000 entries"});
  std::string json = "{\"k\":1";
  for (int i = 1; i <= 300'000; ++i) json += ",\"k" + std::to_string(i) + "\":1";
  expect_error([&] { parse(json + "}"); }, {"source", "memory"});
}

}  // namespace
}  // namespace facula
