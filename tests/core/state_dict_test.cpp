#include <facula/state_dict.h>

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <facula/error.h>

namespace facula {
namespace {

TEST(StateDict, BuildsATreeFromDottedNames) {
  StateDict state;
  state.set("model.fc.weight", zeros({2, 3}));
  state.set("model.fc.bias", zeros({3}));
  state.set("epoch", 7);
  state.set("model.best", 0.5);
  state.set("note", "text");
  state.set("raw", Bytes{1, 2});
  state.set("done", true);
  EXPECT_EQ(state.entries().size(), 5u);
  EXPECT_EQ(state.dict("model.fc").entries().size(), 2u);
  EXPECT_EQ(state.tensor("model.fc.weight").sizes(), IntList({2, 3}));
  EXPECT_EQ(state.integer("epoch"), 7);
  EXPECT_EQ(state.number("epoch"), 7.0);
  EXPECT_EQ(state.number("model.best"), 0.5);
  EXPECT_EQ(state.text("note"), "text");
  EXPECT_TRUE(state.boolean("done"));
  std::string names;
  for (const auto& [name, value] : state.flat()) names += name + " ";
  EXPECT_EQ(names, "model.fc.weight model.fc.bias model.best epoch note raw done ");
}

TEST(StateDict, ReplacesEntriesInPlaceAndCopiesDeeply) {
  StateDict state;
  state.set("a.x", 1);
  state.set("b", 2);
  StateDict copy = state;
  copy.set("a.x", 5);
  EXPECT_EQ(state.integer("a.x"), 1);
  EXPECT_EQ(copy.integer("a.x"), 5);
  EXPECT_EQ(copy.entries()[0].first, "a");
  EXPECT_FALSE(state.contains("a.y"));
  EXPECT_FALSE(state.contains("b.y"));
}

std::string message_of(const auto& function) {
  try {
    function();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(StateDict, ErrorsNameTheEntry) {
  StateDict state;
  state.set("a.x", 1);
  EXPECT_NE(message_of([&] { state.at("a.y"); }).find("no \"a.y\"; it has: a.x"),
            std::string::npos);
  EXPECT_NE(message_of([&] { state.tensor("a.x"); }).find("is an integer, expected a tensor"),
            std::string::npos);
  EXPECT_NE(message_of([&] { state.set("a.x.z", 1); }).find("\"x\" is an integer, not a tree"),
            std::string::npos);
  for (const char* name : {"", ".", "a.", ".a", "a..b"}) {
    EXPECT_THROW(state.set(name, 1), ValueError) << name;
    EXPECT_THROW(state.find(name), ValueError) << name;
  }
}

template <class Dict>
concept Finds = requires(Dict&& state) {
  std::forward<Dict>(state).find("");
};

StateDict made() {
  StateDict state;
  state.set("model.weight", full({3}, 2.0));
  state.set("model.name", std::string(100, 'n'));
  return state;
}

// References into what a function returns would outlive it.
TEST(StateDict, OneWithoutANameGivesValues) {
  const Tensor& weight = made().tensor("model.weight");
  const StateDict& model = made().dict("model");
  const std::string& name = made().dict("model").text("name");
  const StateValue& value = made().at("model.name");
  EXPECT_EQ(weight.to_vector<float>(), std::vector<float>(3, 2));
  EXPECT_EQ(model.entries().size(), 2u);
  EXPECT_EQ(name, std::string(100, 'n'));
  EXPECT_EQ(*value.get_if<std::string>(), name);
  static_assert(std::is_same_v<decltype(made().tensor("")), Tensor>);
  static_assert(std::is_same_v<decltype(made().dict("")), StateDict>);
  static_assert(std::is_same_v<decltype(made().text("")), std::string>);
  static_assert(std::is_same_v<decltype(made().at("")), StateValue>);
  static_assert(std::is_same_v<decltype(model.tensor("")), const Tensor&>);
  static_assert(Finds<StateDict&> && Finds<const StateDict&> && !Finds<StateDict>);
}

TEST(StateDict, ManyEntriesAreFound) {
  StateDict state;
  constexpr int kCount = 1000;
  for (int i = 0; i < kCount; ++i) state.set("layer." + std::to_string(i), i);
  const StateDict copy = state;
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(copy.integer("layer." + std::to_string(i)), i);
  EXPECT_FALSE(copy.contains("layer.1000"));
  state.set("layer.7", -1);
  EXPECT_EQ(state.dict("layer").entries().size(), static_cast<std::size_t>(kCount));
  EXPECT_EQ(state.dict("layer").entries()[7].second.get_if<std::int64_t>()[0], -1);
}

TEST(StateDict, NoneIsAValue) {
  StateDict state;
  state.set("nothing", None);
  EXPECT_TRUE(state.at("nothing").get_if<NoneType>());
  EXPECT_STREQ(state.at("nothing").kind_name(), "None");
}

TEST(StateDict, NamesOfTooManyPartsAreRefused) {
  StateDict state;
  std::string name = "a";
  for (int i = 1; i < 64; ++i) name += ".a";
  state.set(name, 1);
  EXPECT_THROW(state.set(name + ".a", 1), ValueError);
}

}  // namespace
}  // namespace facula
