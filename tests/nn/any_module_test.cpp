#include <gtest/gtest.h>

#include <utility>

#include <facula/autograd.h>
#include <facula/error.h>
#include <facula/models.h>
#include <facula/nn/containers.h>
#include <facula/nn/layers.h>

#include "tests/support/expect.h"

namespace facula::nn {
namespace {

struct Classifier : Module {
  AnyModule backbone{*this, "backbone", Linear({.in = 4, .out = 3})};
  Linear head{*this, "head", {.in = 3, .out = 2}};
  AnyModule extra{*this, "extra"};

  Tensor forward(const Tensor& x) const override { return head(relu(backbone(x))); }
};

std::string names_of(const auto& named) {
  std::string names;
  for (const auto& entry : named) names += entry.first + " ";
  return names;
}

TEST(AnyModule, MembersAreChildren) {
  Classifier model;
  EXPECT_EQ(names_of(model.named_parameters()),
            "backbone.weight backbone.bias head.weight head.bias ");
  EXPECT_EQ(names_of(model.named_children()), "backbone head ");
  EXPECT_NE(model.str().find("(backbone): Linear("), std::string::npos) << model;

  model.eval();
  EXPECT_FALSE(model.backbone->is_training());
  model.to(kFloat64);
  EXPECT_EQ(model.backbone->parameters()[0].dtype(), kFloat64);
  model(ones({1, 4}, kFloat64)).sum().backward();
  for (const Tensor& parameter : model.parameters()) EXPECT_TRUE(parameter.grad().defined());
}

TEST(AnyModule, AssigningReplacesTheModuleAndKeepsThePlace) {
  Classifier model;
  model.backbone = Sequential(Linear({.in = 4, .out = 8}), Linear({.in = 8, .out = 3}));
  model.extra = models::create("mlp");
  EXPECT_EQ(names_of(model.named_children()), "backbone head extra ");
  EXPECT_TRUE(model.state_dict().contains("backbone.1.weight"));
  EXPECT_EQ(model.backbone->name(), "backbone");
  EXPECT_TRUE(model.backbone.get_if<Sequential>());
  EXPECT_FALSE(model.backbone.get_if<Linear>());
  model.extra = AnyModule();
  EXPECT_EQ(names_of(model.named_children()), "backbone head ");
}

TEST(AnyModule, IsALayerOfASequential) {
  const Sequential one(Linear({.in = 4, .out = 3}));
  EXPECT_EQ(one.size(), 1u);
  const Sequential copy(one);
  EXPECT_TRUE(copy[0].parameters()[0].is_same(one[0].parameters()[0]));
  Sequential mixed(AnyModule(Linear({.in = 4, .out = 3})), ReLU());
  EXPECT_EQ(names_of(mixed.named_children()), "0 1 ");
  // A Module& does not tell which class is to be copied.
  static_assert(!std::constructible_from<AnyModule, Module&>);
}

TEST(AnyModule, CopiesShareClonesAndMovesDoNot) {
  Classifier model;
  const Classifier copy = model;
  EXPECT_EQ(names_of(copy.named_parameters()), names_of(model.named_parameters()));
  EXPECT_TRUE(copy.backbone->parameters()[0].is_same(model.backbone->parameters()[0]));
  EXPECT_NE(&*copy.backbone, &*model.backbone);

  const Classifier own = clone(model);
  EXPECT_FALSE(own.backbone->parameters()[0].is_same(model.backbone->parameters()[0]));
  Classifier assigned;
  assigned = model;
  EXPECT_TRUE(assigned.backbone->parameters()[0].is_same(model.backbone->parameters()[0]));

  const Classifier moved = std::move(model);
  EXPECT_EQ(names_of(moved.named_parameters()), names_of(copy.named_parameters()));
  EXPECT_FALSE(model.backbone);  // NOLINT(bugprone-use-after-move): what is left of it
}

/// Its copy constructor makes it anew, as a class with a mutex has to.
struct Rebuilt : Module {
  explicit Rebuilt(std::int64_t size) : layer(*this, "layer", {.in = size, .out = size}) {}
  Rebuilt(const Rebuilt& other) : Rebuilt(other.layer.weight.size(0)) {
    load_state_dict(other.state_dict());
  }
  Tensor forward(const Tensor& x) const override { return layer(x); }

  Linear layer;
};

TEST(AnyModule, CopiesKeepTheNamesOfModulesThatMakeThemselvesAnew) {
  const Sequential model(Rebuilt(2), AnyModule(Rebuilt(3)));
  const Sequential copy(model);
  EXPECT_EQ(names_of(copy.named_parameters()), names_of(model.named_parameters()));
  const StateDict state = copy.state_dict();
  EXPECT_EQ(state.tensor("1.layer.weight").numel(), 9);
  const Sequential own = clone(model);
  EXPECT_EQ(own[1].name(), "1");
}

TEST(AnyModule, WithoutAModuleItSaysSo) {
  const Classifier model;
  EXPECT_FALSE(model.extra);
  EXPECT_ERROR(ValueError, "\"extra\"", model.extra(ones({1})));
  EXPECT_ERROR(ValueError, "no module", AnyModule()->name());
  ModuleList list;
  EXPECT_ERROR(ValueError, "no module", list.push_back(AnyModule()));
}

}  // namespace
}  // namespace facula::nn
