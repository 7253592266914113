// Which members a module has, and in which order, whatever is assigned, emplaced and copied.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <facula/nn/containers.h>
#include <facula/nn/layers.h>
#include <facula/optim.h>

#include "tests/support/expect.h"

namespace facula::nn {
namespace {

std::string parameters_of(const Module& module) {
  std::string names;
  for (const auto& [name, tensor] : module.named_parameters()) names += name + " ";
  return names;
}

struct Net : Module {
  std::optional<Linear> first;
  Linear second{*this, "second", {.in = 1, .out = 1, .bias = false}};
  std::optional<Parameter> third;
  AnyModule fourth{*this, "fourth", Linear({.in = 1, .out = 1, .bias = false})};

  void fill() {
    third.emplace(*this, "third", ones({1}));
    first.emplace(*this, "first", LinearOptions{.in = 1, .out = 1, .bias = false});
  }
};

constexpr const char* kAllOfNet = "third first.weight second.weight fourth.weight ";

TEST(Members, EmplacedOnesHaveThePlaceOfTheirDeclaration) {
  Net net;
  net.fill();
  EXPECT_EQ(parameters_of(net), kAllOfNet);
  EXPECT_EQ(parameters_of(Net(net)), kAllOfNet);
  net.first.reset();
  net.fill();
  EXPECT_EQ(parameters_of(net), kAllOfNet);
}

TEST(Members, AssignedOnesHaveThePlaceOfTheirDeclaration) {
  Net source, copied, moved;
  source.fill();
  copied = source;
  EXPECT_EQ(parameters_of(copied), kAllOfNet);
  moved = Net(source);
  EXPECT_EQ(parameters_of(moved), kAllOfNet);
  EXPECT_TRUE(moved.parameters()[1].is_same(moved.first->weight));

  // Optimizers number parameters by it.
  optim::Adam first(source.parameters(), {}), other(copied.parameters(), {});
  (source.first->weight * 1 + source.second.weight * 10).sum().backward();
  first.step();
  other.load_state_dict(first.state_dict());
  EXPECT_NEAR(other.state_dict().tensor("state.1.exp_avg").item<double>(), 0.1, 1e-6);
  EXPECT_NEAR(other.state_dict().tensor("state.2.exp_avg").item<double>(), 1, 1e-6);
}

// Copies of what comes last are awaited there.
TEST(Members, OrderOfManyThatComeAndGo) {
  struct Many : Module {
    std::optional<Parameter> items[5];
    void add(int i) {
      items[i].emplace(*this, std::string(1, static_cast<char>('a' + i)).c_str(), ones({1}));
    }
  };
  for (int set = 0; set < 32; ++set) {
    for (const int first : {0, 2, 4}) {
      Many source, target;
      std::string expected;
      for (int i = 0; i < 5; ++i) {
        const int k = (first + i) % 5;
        if (set >> k & 1) source.add(k);
        if (!(set >> i & 1)) continue;
        expected += std::string(1, static_cast<char>('a' + i)) + " ";
      }
      target.add(first);
      target = source;
      EXPECT_EQ(parameters_of(source), expected);
      EXPECT_EQ(parameters_of(target), expected);
    }
  }
}

struct Choice : Module {
  std::variant<Linear, BatchNorm1d> layer{std::in_place_index<0>, *this, "layer",
                                          LinearOptions{.in = 1, .out = 1}};
  void choose_norm() { layer.emplace<1>(*this, "layer", BatchNormOptions{.features = 2}); }
};

TEST(Members, OfVariantsAreNeverLost) {
  Choice norm;
  norm.choose_norm();
  EXPECT_EQ(norm.parameter_count(), 4);
  const Choice copy = norm;
  EXPECT_EQ(copy.parameter_count(), 4);
  Choice moved;
  moved = Choice(norm);
  EXPECT_EQ(moved.parameter_count(), 4);
  Choice assigned;
  assigned = norm;  // by way of a copy that is made elsewhere
  EXPECT_ERROR(ValueError, "its member \"layer\" was not copied along", assigned.parameters());
  Choice same;
  same.choose_norm();
  same = norm;
  EXPECT_TRUE(same.parameters()[0].is_same(std::get<1>(norm.layer).weight));
}

struct Residual : Sequential {
  using Sequential::Sequential;
  Tensor forward(const Tensor& x) const override { return x + Sequential::forward(x); }
};

constexpr const char* kCut = "Sequential: it is a copy of a Residual, of which it is only a part";

TEST(Members, CopiesOfAPartAreErrors) {
  const Residual residual(Linear({.in = 1, .out = 1}), ReLU());
  const Tensor x = ones({1, 1});
  const Sequential one(residual), moved{Residual(residual)}, again(one);
  EXPECT_ERROR(ValueError, kCut, one(x));
  EXPECT_ERROR(ValueError, kCut, moved(x));
  EXPECT_ERROR(ValueError, kCut, again(x));
  const Sequential nested(residual, ReLU());
  Sequential pushed;
  pushed.push_back(dynamic_cast<Sequential&>(nested[0]));
  EXPECT_ERROR(ValueError, kCut, pushed(x));
  Sequential assigned;
  assigned = residual;
  EXPECT_ERROR(ValueError, kCut, assigned(x));
  assigned = Residual(residual);
  EXPECT_ERROR(ValueError, kCut, assigned(x));
  assigned = Sequential(ReLU(), ReLU());
  EXPECT_EQ(assigned(x).item(), 1);
  struct Doubled : Linear {
    using Linear::Linear;
    Tensor forward(const Tensor& input) const override { return Linear::forward(input) * 2; }
  };
  const Linear single = Doubled({.in = 1, .out = 1});
  EXPECT_ERROR(ValueError, "Linear: it is a copy of a Doubled", single(x));
}

// The initializer of what is left out runs instead.
struct Forgetful : Module {
  Forgetful() = default;
  Forgetful(const Forgetful& other) : Module(other), kept(other.kept) {}

  Parameter kept{*this, "kept", ones({1})};
  Parameter scale{*this, "scale", ones({1})};
};

TEST(Members, ACopyConstructorThatForgetsOneIsTold) {
  const Forgetful original;
  EXPECT_ERROR(
      ValueError,
      "Forgetful: its member \"scale\" was not copied along; copy a module as the type that "
      "it is, copy every member in a copy constructor of your own",
      const Forgetful copy(original));
  EXPECT_EQ(parameters_of(original), "kept scale ");
  EXPECT_EQ(parameters_of(Forgetful()), "kept scale ");
}

TEST(Members, CopiesOfTheWholeOrOfABaseAreNone) {
  const Residual residual(Linear({.in = 1, .out = 1}), ReLU());
  const Tensor x = ones({1, 1}), expected = residual(x);
  struct Written : Sequential {
    Written() : Sequential(ReLU(), ReLU()) {}
    Written(const Written& other) : Sequential(other), factor(other.factor) {}
    Written& operator=(const Written& other) {
      Sequential::operator=(other);
      return *this;
    }
    Tensor forward(const Tensor& input) const override {
      return Sequential::forward(input) * factor;
    }
    double factor = 2;
  };
  const Written written, copy = written;
  EXPECT_EQ(copy(x).item(), 2);
  Written assigned;
  assigned = copy;
  EXPECT_EQ(assigned(x).item(), 2);
  struct Extended : Sequential {
    explicit Extended(const Sequential& layers) : Sequential(layers) {}
    Linear head{*this, "head", {.in = 1, .out = 1}};
  };
  const Extended extended{Sequential{ReLU(), ReLU()}};
  EXPECT_EQ(extended(x).item(), 1);
  EXPECT_EQ(Extended(extended).parameter_count(), 2);
  Sequential pushed;
  pushed.push_back(residual);
  EXPECT_TRUE(equal(pushed(x), expected));
  // Through what does not know the whole type.
  Residual target, other{ReLU(), ReLU()};
  std::swap(static_cast<Sequential&>(target), static_cast<Sequential&>(other));
  EXPECT_EQ(target(x).item(), 2);
  EXPECT_EQ(other(x).item(), 2);
}

// While a base class is constructed or destroyed, the object is of that type.
TEST(Members, BasesMayListThemInConstructorsAndDestructors) {
  struct Listing : Module {
    Linear fc{*this, "fc", {.in = 1, .out = 1}};
    Listing() = default;
    Listing(const Listing& other) : Module(other), fc(other.fc) { unshare(*this); }
    Listing(Listing&& other) noexcept : Module(std::move(other)), fc(std::move(other.fc)) {
      eval();
    }
    ~Listing() override { (void)parameter_count(); }
    Tensor forward(const Tensor& x) const override { return fc(x); }
  };
  struct Whole : Listing {
    Tensor forward(const Tensor& x) const override { return fc(x) * 2; }
  };
  const AnyModule owned = Whole();
  const Whole one, copy = one;
  EXPECT_FALSE(copy.fc.weight.is_same(one.fc.weight));
  const Tensor x = ones({1, 1});
  EXPECT_TRUE(equal(copy(x), one(x)));
}

struct WithScale : Sequential {
  using Sequential::Sequential;
  Linear scale{*this, "scale", {.in = 1, .out = 1}};
};
struct WithNorm : Sequential {
  using Sequential::Sequential;
  BatchNorm1d scale{*this, "scale", {.features = 1}};
};

TEST(Members, AWholeOneHealsWhatWasAssignedAPart) {
  WithScale scale{ReLU(), ReLU()};
  Sequential assigned;
  assigned = scale;
  EXPECT_ERROR(ValueError, "not copied along", assigned.parameters());
  assigned = Sequential(ReLU(), ReLU());
  EXPECT_TRUE(assigned.parameters().empty());
  EXPECT_EQ(assigned(ones({1, 1})).item(), 1);

  WithNorm norm{ReLU(), ReLU(), ReLU()};
  std::swap(static_cast<Sequential&>(scale), static_cast<Sequential&>(norm));
  EXPECT_EQ(parameters_of(scale), "scale.weight scale.bias ");
  EXPECT_EQ(scale.size(), 3u);
  EXPECT_EQ(parameters_of(norm), "scale.weight scale.bias ");
}

struct Stem : Module {
  Linear stem{*this, "stem", {.in = 1, .out = 1, .bias = false}};
};
struct LeftOfStem : virtual Stem {
  Linear left{*this, "left", {.in = 1, .out = 1, .bias = false}};
};
struct RightOfStem : virtual Stem {
  Linear right{*this, "right", {.in = 1, .out = 1, .bias = false}};
};
struct Diamond : LeftOfStem, RightOfStem {
  Linear head{*this, "head", {.in = 1, .out = 1, .bias = false}};
};

TEST(Members, OfVirtualBasesComeFirst) {
  const Diamond diamond, copy = diamond;
  constexpr const char* kOrder = "stem.weight left.weight right.weight head.weight ";
  EXPECT_EQ(parameters_of(diamond), kOrder);
  EXPECT_EQ(parameters_of(copy), kOrder);
}

struct Mixin {
  virtual ~Mixin() = default;
  double number = 1;
};
struct Plain : Module {
  std::optional<Parameter> first;
  Parameter second{*this, "second", ones({1})};
};
struct BehindMixin : Mixin, Plain {
  std::optional<Parameter> third;
  Parameter fourth{*this, "fourth", ones({1})};
};

TEST(Members, OfABaseThatIsNotTheFirstHaveTheirPlace) {
  BehindMixin module;
  module.third.emplace(module, "third", ones({1}));
  module.first.emplace(module, "first", ones({1}));
  constexpr const char* kOrder = "first second third fourth ";
  EXPECT_EQ(parameters_of(module), kOrder);
  EXPECT_EQ(parameters_of(BehindMixin(module)), kOrder);
  BehindMixin assigned;
  assigned = module;
  EXPECT_EQ(parameters_of(assigned), kOrder);
  module.first.reset();
  static_cast<Plain&>(module).first.emplace(static_cast<Plain&>(module), "first", ones({1}));
  EXPECT_EQ(parameters_of(module), kOrder);
}

struct Base : virtual Module {};
struct Left : virtual Base {
  Linear fc{*this, "fc", {.in = 1, .out = 1}};
};
struct Right : virtual Base {};
struct Both : Left, Right {};

TEST(Members, CopiesOfAPartAreFoundAmongSeveralBases) {
  const Both both;
  EXPECT_EQ(Both(both).parameter_count(), 2);
  const Left left = both;
  EXPECT_ERROR(ValueError, "Left: it is a copy of a Both", left(ones({1, 1})));
}

}  // namespace
}  // namespace facula::nn
