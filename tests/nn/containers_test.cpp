#include <facula/nn/containers.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <facula/error.h>
#include <facula/nn/layers.h>

#include "tests/support/expect.h"

namespace facula::nn {
namespace {

TEST(Containers, NamesAreThoseOfOneModule) {
  struct Taken : Sequential {
    Linear first{*this, "0", {.in = 3, .out = 3}};
    Buffer mean{*this, "mean", zeros({3})};
  } taken;
  EXPECT_ERROR(ValueError, "there is a member \"0\" already", taken.push_back(ReLU()));
  EXPECT_ERROR(ValueError, "there is a member \"mean\" already", taken.push_back("mean", ReLU()));
  struct Late : Sequential {
    Late() : Sequential(ReLU(), ReLU()) {}
    Buffer first{*this, "0", zeros({3})};
  };
  EXPECT_ERROR(ValueError, "there is a member \"0\" already", Late());
}

// Its members are registered before those that come after them exist.
TEST(Containers, OfOnesOwnMayOverrideTheListOfChildren) {
  struct Branches : Module {
    Linear head{*this, "head", {.in = 2, .out = 2}};
    std::vector<std::unique_ptr<Linear>> items;
    void list_children(std::vector<Module*>& children) const override {
      Module::list_children(children);
      for (const auto& item : items) children.push_back(item.get());
    }
  };
  alignas(Branches) std::byte memory[sizeof(Branches)];
  std::memset(memory, 0x7f, sizeof(memory));
  auto* branches = new (memory) Branches;
  branches->items.push_back(std::make_unique<Linear>(LinearOptions{.in = 2, .out = 2}));
  EXPECT_EQ(branches->parameter_count(), 12);
  branches->~Branches();
}

TEST(Containers, IndexErrorsNameTheList) {
  const Sequential alone{ReLU(), ReLU()};
  EXPECT_ERROR(IndexError, "Sequential: index 5 is out of range for 2 modules", alone[5]);
  struct Net : Module {
    ModuleList blocks{*this, "blocks"};
  } net;
  EXPECT_ERROR(IndexError, "ModuleList \"blocks\": index 0 is out of range for 0 modules",
               net.blocks[0]);
}

TEST(Containers, MayBeAssignedWhatTheyOwn) {
  const auto nested = [] {
    return Sequential(Sequential(Linear({.in = 2, .out = 3}), ReLU(), Linear({.in = 3, .out = 2})),
                      ReLU(), ReLU(), ReLU());
  };
  Sequential copied = nested();
  const Tensor weight = copied.parameters()[0];
  copied = dynamic_cast<Sequential&>(copied[0]);
  EXPECT_EQ(copied.size(), 3u);
  EXPECT_TRUE(copied.parameters()[0].is_same(weight));
  Sequential moved = nested();
  moved = std::move(dynamic_cast<Sequential&>(moved[0]));
  EXPECT_EQ(moved.size(), 3u);
  ModuleList list;
  list.push_back(ModuleList());
  dynamic_cast<ModuleList&>(list[0]).push_back(ReLU());
  list = dynamic_cast<ModuleList&>(list[0]);
  EXPECT_EQ(list[0].type_name(), "ReLU");
  auto& itself = list;
  list = std::move(itself);
  EXPECT_EQ(list.size(), 1u);
}

TEST(Containers, Lists) {
  ModuleList list;
  list.push_back(Linear({.in = 1, .out = 2}));
  list.push_back("act", ReLU());
  EXPECT_EQ(list[0].name(), "0");
  EXPECT_EQ(list[1].name(), "act");
  EXPECT_EQ(list.size(), 2u);
  EXPECT_THROW(list[2], IndexError);
  EXPECT_THROW(list.push_back("act", ReLU()), ValueError);
  EXPECT_THROW(list.push_back("a.b", ReLU()), ValueError);
  EXPECT_NE(list.begin()->get_if<Linear>(), nullptr);
  EXPECT_EQ(list.begin()->get_if<ReLU>(), nullptr);
  const Sequential nothing;
  EXPECT_TRUE(nothing(ones({2})).is_same(nothing(ones({2}))) == false);
  EXPECT_EQ(nothing(ones({2})).numel(), 2);
}

}  // namespace
}  // namespace facula::nn
