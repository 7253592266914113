#include <facula/nn/module.h>

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <sstream>
#include <thread>

#include <facula/autograd.h>
#include <facula/error.h>
#include <facula/nn/containers.h>
#include <facula/nn/layers.h>
#include <facula/nn/loss.h>
#include <facula/nn/utils.h>

#include "tests/support/expect.h"

namespace facula::nn {
namespace {

struct Block : Module {
  explicit Block(std::int64_t width, Place place = {})
      : Module(place), fc(*this, "fc", {.in = width, .out = width}) {}

  Tensor forward(const Tensor& x) const override { return tanh(fc(x)) * scale; }

  Linear fc;
  Parameter scale{*this, "scale", ones({1})};
  Buffer seen{*this, "seen", zeros({}, kInt64)};
  Buffer scratch{*this, "scratch", zeros({2}), false};
};

struct Model : Module {
  Block first{3, {*this, "first"}};
  Sequential rest{*this, "rest", Linear({.in = 3, .out = 3}), ReLU(), Block(3)};
  std::optional<Linear> head;

  void add_head() { head.emplace(*this, "head", LinearOptions{.in = 3, .out = 2}); }
  Tensor forward(const Tensor& x) const override {
    const Tensor y = rest(first(x));
    return head ? (*head)(y) : y;
  }
};

std::string names_of(const auto& named) {
  std::string names;
  for (const auto& entry : named) names += entry.first + " ";
  return names;
}

template <class E>
std::string message_of(const auto& function) {
  try {
    function();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Module, ListsContentsUnderPyTorchNames) {
  Model model;
  EXPECT_EQ(names_of(model.named_parameters()),
            "first.scale first.fc.weight first.fc.bias rest.0.weight rest.0.bias rest.2.scale "
            "rest.2.fc.weight rest.2.fc.bias ");
  EXPECT_EQ(names_of(model.named_buffers()),
            "first.seen first.scratch rest.2.seen rest.2.scratch ");
  EXPECT_EQ(names_of(model.named_children()), "first rest ");
  EXPECT_EQ(names_of(model.named_modules()),
            " first first.fc rest rest.0 rest.1 rest.2 rest.2.fc ");
  EXPECT_EQ(model.parameters().size(), 8u);
  EXPECT_EQ(model.parameter_count(), 2 * (1 + 9 + 3) + 12);
  EXPECT_EQ(model.type_name(), "Model");
}

TEST(Module, StateHasParametersThenPersistentBuffersOfEachModule) {
  Model model;
  const StateDict state = model.first.state_dict();
  EXPECT_EQ(names_of(state.flat()), "scale seen fc.weight fc.bias ");
}

TEST(Module, CopiesShareTensorsAndAreCompleteModules) {
  Model model;
  model.add_head();
  const Tensor x = randn({4, 3});
  Model copy = model;
  EXPECT_EQ(names_of(copy.named_parameters()), names_of(model.named_parameters()));
  EXPECT_TRUE(copy.first.fc.weight.is_same(model.first.fc.weight));
  EXPECT_TRUE(equal(copy(x), model(x)));
  copy.eval();
  EXPECT_FALSE(copy.rest[0].is_training());
  EXPECT_TRUE(model.rest[0].is_training());
  // Each is registered in its own parent: replacing one leaves the other alone.
  copy.first.fc = Linear({.in = 3, .out = 3});
  EXPECT_TRUE(copy.parameters()[1].is_same(copy.first.fc.weight));
  EXPECT_TRUE(model.parameters()[1].is_same(model.first.fc.weight));
  EXPECT_FALSE(copy.first.fc.weight.is_same(model.first.fc.weight));
}

TEST(Module, CloneHasTensorsOfItsOwnAndKeepsWhatIsShared) {
  Model model;
  model.first.fc.weight.requires_grad_(false);
  auto& inner = static_cast<Linear&>(model.rest[0]);
  inner.weight = model.first.fc.weight;
  Model copy = clone(model);
  EXPECT_FALSE(copy.first.fc.weight.is_same(model.first.fc.weight));
  EXPECT_TRUE(copy.first.fc.weight.is_same(static_cast<Linear&>(copy.rest[0]).weight));
  EXPECT_FALSE(copy.first.fc.weight.requires_grad());
  EXPECT_TRUE(copy.first.scale.requires_grad());
  EXPECT_TRUE(copy.first.scale.is_leaf());
  {
    const NoGradGuard no_grad;
    copy.first.scale.fill_(7);
  }
  EXPECT_EQ(model.first.scale.item(), 1);
}

// Through what does not know the whole type, only a part would be copied.
TEST(Module, ClonesAreWhole) {
  const AnyModule any = Sequential(Linear({.in = 2, .out = 2}), ReLU());
  const AnyModule copy = clone(any);
  EXPECT_EQ(copy->parameter_count(), 6);
  EXPECT_FALSE(copy->parameters()[0].is_same(any->parameters()[0]));
  EXPECT_FALSE(clone(AnyModule()));
  struct Classifier : Sequential {
    Linear head{*this, "head", {.in = 2, .out = 2}};
  } classifier;
  EXPECT_ERROR(ValueError, "clone: Classifier is copied as Sequential",
               clone(static_cast<const Sequential&>(classifier)));
  EXPECT_EQ(clone(classifier).parameter_count(), 6);
}

TEST(Module, SharedTensorsAreListedOnce) {
  Model model;
  static_cast<Linear&>(model.rest[0]).weight = model.first.fc.weight;
  EXPECT_EQ(model.parameters().size(), 7u);
  EXPECT_EQ(names_of(model.named_parameters()).find("rest.0.weight"), std::string::npos);
  EXPECT_TRUE(model.state_dict().contains("rest.0.weight"));
}

TEST(Module, MovesLeaveACompleteModuleInBothPlaces) {
  Model model;
  model.add_head();
  const Tensor x = randn({4, 3});
  const Tensor expected = model(x);
  Model moved = std::move(model);
  EXPECT_TRUE(equal(moved(x), expected));
  EXPECT_EQ(moved.parameters().size(), 10u);
  model = Model();
  model.add_head();
  EXPECT_EQ(model.parameters().size(), 10u);
  EXPECT_TRUE(model.parameters().back().is_same(model.head->bias));
  std::vector<Model> models;
  for (int i = 0; i < 5; ++i) models.push_back(moved);
  for (Model& one : models) EXPECT_EQ(one.parameters().size(), 10u);
  EXPECT_TRUE(models[0].parameters()[0].is_same(models[0].first.scale));
}

TEST(Module, AssignmentFillsAndEmptiesOptionalMembers) {
  Model with, without;
  with.add_head();
  Model target;
  target = with;
  EXPECT_EQ(target.parameters().size(), 10u);
  EXPECT_TRUE(target.parameters().back().is_same(target.head->bias));
  target = without;
  EXPECT_EQ(target.parameters().size(), 8u);
  with.head.reset();
  EXPECT_EQ(with.parameters().size(), 8u);
}

TEST(Module, ReplacedLayersAndParametersAreTrained) {
  Model model;
  model.add_head();
  *model.head = Linear({.in = 3, .out = 5});
  EXPECT_EQ(model.head->name(), "head");
  EXPECT_EQ(model(randn({2, 3})).size(1), 5);
  EXPECT_TRUE(model.parameters()[8].is_same(model.head->weight));
  model.head->bias = zeros({5});
  EXPECT_TRUE(model.head->bias.requires_grad());
  model(randn({2, 3})).sum().backward();
  EXPECT_TRUE(model.head->bias.grad().defined());
}

struct Derived : Block {
  Derived() : Block(3) {}
  Linear extra{*this, "extra", {.in = 3, .out = 3}};
};

struct Forgetful : Module {
  Linear fc{*this, "fc", {.in = 2, .out = 2}};
  Forgetful() = default;
  Forgetful(const Forgetful& other) : Module(other), fc({.in = 2, .out = 2}) {}
};

TEST(Module, IncompleteCopiesAreReported) {
  const Derived derived;
  const Block sliced = derived;
  EXPECT_NE(message_of<ValueError>([&] { sliced.parameters(); }).find("\"extra\" was not copied"),
            std::string::npos);
  EXPECT_ERROR(ValueError, "\"extra\" was not copied", sliced.str());
  const Forgetful original;
  const Forgetful copy = original;
  EXPECT_NE(message_of<ValueError>([&] { copy.parameters(); }).find("\"fc\" was not copied"),
            std::string::npos);
  const Linear alone = original.fc;
  EXPECT_EQ(alone.parameters().size(), 2u);
}

struct Scattered : Module {
  std::vector<Linear> layers;
  void grow() { layers.emplace_back(*this, "a", LinearOptions{.in = 1, .out = 1}); }
};

struct Twice : Module {
  Linear a{*this, "a", {.in = 1, .out = 1}};
  Linear b{*this, "a", {.in = 1, .out = 1}};
};

struct Dotted : Module {
  Linear a{*this, "a.b", {.in = 1, .out = 1}};
};

TEST(Module, RegistrationErrors) {
  Scattered scattered;
  EXPECT_NE(message_of<ValueError>([&] { scattered.grow(); }).find("not a direct member"),
            std::string::npos);
  EXPECT_NE(message_of<ValueError>([] { Twice(); }).find("\"a\" already"), std::string::npos);
  EXPECT_THROW(Dotted(), ValueError);
}

TEST(Module, ErrorsNameThePath) {
  Model model;
  const std::string message = message_of<ShapeError>([&] { model(randn({4, 5})); });
  EXPECT_NE(message.find("in module first.fc"), std::string::npos) << message;
  EXPECT_EQ(message.find("in module"), message.rfind("in module")) << message;
  Linear alone({.in = 3, .out = 2});
  EXPECT_EQ(message_of<ShapeError>([&] {
              alone(randn({4, 5}));
            }).find("in module"),
            std::string::npos);
  struct Lost : ValueError {
    using ValueError::ValueError;
    int code = 7;
  };
  struct Loser : Module {
    Tensor forward(const Tensor&) const override { throw Lost("lost"); }
  };
  EXPECT_THROW(Sequential(Loser(), ReLU())(ones({1})), Lost);
  struct Mute : Module {};
  EXPECT_NE(message_of<ValueError>([] { Mute()(ones({1})); }).find("no forward(Tensor)"),
            std::string::npos);
}

TEST(Module, Hooks) {
  Linear fc({.in = 2, .out = 2});
  const Tensor x = ones({1, 2});
  int calls = 0;
  const auto before = fc.register_forward_pre_hook([&](const Module& module, const Tensor& input) {
    EXPECT_EQ(&module, &fc);
    ++calls;
    return input * 0;
  });
  const auto after = fc.register_forward_hook([&](const Module&, const Tensor&, const Tensor& out) {
    ++calls;
    return out + 1;
  });
  EXPECT_TRUE(equal(fc(x), (fc.bias + 1).reshape({1, 2})));
  EXPECT_EQ(calls, 2);
  fc.remove_hook(before);
  fc.remove_hook(before);
  fc.remove_hook(after);
  fc(x);
  EXPECT_EQ(calls, 2);
}

TEST(Module, HooksMayRemoveThemselvesAndRegisterOthers) {
  Linear fc({.in = 2, .out = 2});
  EXPECT_ERROR(ValueError, "register_forward_hook: the hook is empty",
               fc.register_forward_hook(nullptr));
  EXPECT_ERROR(ValueError, "register_forward_pre_hook: the hook is empty",
               fc.register_forward_pre_hook(nullptr));
  const Tensor x = ones({1, 2});
  std::string calls;
  std::int64_t once = 0;
  once = fc.register_forward_pre_hook([&](const Module&, const Tensor&) {
    calls += "once ";
    fc.remove_hook(once);
    // Enough for the list to move.
    for (int i = 0; i < 16; ++i) {
      fc.register_forward_pre_hook([](const Module&, const Tensor&) { return Tensor(); });
    }
    fc.register_forward_hook([&](const Module&, const Tensor&, const Tensor&) {
      calls += "registered ";
      return Tensor();
    });
    return Tensor();
  });
  fc.register_forward_pre_hook([&](const Module&, const Tensor&) {
    calls += "next ";
    return Tensor();
  });
  std::int64_t after = 0;
  after = fc.register_forward_hook([&](const Module&, const Tensor&, const Tensor&) {
    calls += "after ";
    fc.remove_hook(after);
    return Tensor();
  });
  fc(x);
  EXPECT_EQ(calls, "once next after registered ");
  calls.clear();
  fc(x);
  EXPECT_EQ(calls, "next registered ");
}

TEST(Module, HookIdsAreNotGivenAgain) {
  Linear fc({.in = 2, .out = 2});
  int calls = 0;
  const auto count = [&](const Module&, const Tensor&) {
    ++calls;
    return Tensor();
  };
  const std::int64_t gone = fc.register_forward_pre_hook(count);
  fc.remove_hook(gone);
  EXPECT_NE(fc.register_forward_pre_hook(count), gone);
  fc.remove_hook(gone);
  fc(ones({1, 2}));
  EXPECT_EQ(calls, 1);
}

TEST(Module, LossesHaveHooksAndPaths) {
  struct Net : Module {
    CrossEntropyLoss loss{*this, "loss"};
    Tensor forward(const Tensor& x) const override { return loss(x, zeros({3}, kInt64)); }
  } net;
  int calls = 0;
  net.loss.register_forward_pre_hook([&](const Module&, const Tensor& input) {
    ++calls;
    return input * 0;
  });
  net.loss.register_forward_hook([&](const Module& module, const Tensor&, const Tensor& out) {
    EXPECT_EQ(&module, &net.loss);
    ++calls;
    return out * 2;
  });
  EXPECT_NEAR(net(randn({3, 4})).item<double>(), 2 * std::log(4.0), 1e-6);
  EXPECT_EQ(calls, 2);
  EXPECT_NE(message_of<ShapeError>([&] {
              net(randn({2, 4}));
            }).find("in module loss"),
            std::string::npos);
}

TEST(Module, PrintsItsTree) {
  Sequential net(Linear({.in = 3, .out = 2}),
                 Sequential(ReLU(), Linear({.in = 2, .out = 1, .bias = false})));
  const char* expected = R"(Sequential(
  (0): Linear(weight: [2, 3], bias: [2])
  (1): Sequential(
    (0): ReLU()
    (1): Linear(weight: [1, 2])
  )
))";
  EXPECT_EQ(net.str(), expected);
  std::ostringstream stream;
  stream << net;
  EXPECT_EQ(stream.str(), expected);
}

TEST(Module, ApplyVisitsChildrenFirst) {
  Model model;
  std::string order;
  model.apply([&](Module& module) { order += module.name() + " "; });
  EXPECT_EQ(order, "fc first 0 1 fc 2 rest  ");
}

TEST(Module, FrozenParametersRecordNothing) {
  Model model;
  model.add_head();
  model.requires_grad_(false);
  EXPECT_FALSE(model(randn({2, 3})).requires_grad());
  model.head->requires_grad_(true);
  const Tensor loss = model(randn({2, 3})).sum();
  loss.backward();
  EXPECT_FALSE(model.first.fc.weight.grad().defined());
  EXPECT_TRUE(model.head->weight.grad().defined());
  model.zero_grad(false);
  EXPECT_EQ(model.head->weight.grad().abs().sum().item(), 0);
  model.zero_grad();
  EXPECT_FALSE(model.head->weight.grad().defined());
}

TEST(Module, ConvertsInPlace) {
  Model model;
  const Tensor weight = model.first.fc.weight;
  model(randn({2, 3})).sum().backward();
  model.to(kFloat64);
  EXPECT_EQ(weight.dtype(), kFloat64);
  EXPECT_EQ(weight.grad().dtype(), kFloat64);
  EXPECT_EQ(model.first.seen.dtype(), kInt64);
  EXPECT_EQ(model(randn({2, 3}, kFloat64)).dtype(), kFloat64);
  EXPECT_TRUE(weight.is_same(model.first.fc.weight));
  EXPECT_THROW(model.to(kInt32), DTypeError);
  Conv2d conv({.in = 2, .out = 3, .kernel = 3});
  const std::vector<double> values = conv.weight.to_vector<double>();
  conv.to(kChannelsLast);
  EXPECT_TRUE(conv.weight.is_contiguous(kChannelsLast));
  EXPECT_EQ(conv.weight.to_vector<double>(), values);
  conv.to(kNull);
  EXPECT_TRUE(conv.weight.device().is_null());
  EXPECT_EQ(conv(empty({5, 2, 8, 8}, kNull)).sizes(), IntList({5, 3, 6, 6}));
  EXPECT_EQ(Dropout({.p = 0.5})(empty({5, 2}, kNull)).sizes(), IntList({5, 2}));
}

TEST(Module, LoadsState) {
  Model source, target;
  EXPECT_FALSE(equal(source.first.fc.weight, target.first.fc.weight));
  source.first.seen.fill_(3);
  target.load_state_dict(source.state_dict());
  EXPECT_TRUE(equal(source.first.fc.weight, target.first.fc.weight));
  EXPECT_EQ(target.first.seen.item(), 3);
  EXPECT_TRUE(target.first.fc.weight.requires_grad());
}

struct Holder : Module {
  explicit Holder(const Tensor& values) : held(*this, "held", values) {}
  Buffer held;
};

TEST(Module, ConvertedTensorsShareNoHistoryWithOthers) {
  Holder holder(zeros({2}).detach());
  holder.to(kFloat64);
  const Tensor held = holder.held, view = held.detach().view({2, 1});
  held.mul_(ones({2}, kFloat64).requires_grad_());
  EXPECT_FALSE((view * 1).requires_grad());
}

TEST(Module, ConvertedViewsAreTensorsOfTheirOwn) {
  const Tensor base = zeros({2, 2});
  Holder holder(base[1]);
  holder.to(kFloat64);
  const Tensor other = holder.held.detach(), grown = ones({2}, kFloat64).requires_grad_();
  holder.held.mul_(grown);
  EXPECT_FALSE(base.requires_grad());
  EXPECT_TRUE(holder.held.requires_grad());
}

TEST(Module, ExpandedBuffersAreNotLoaded) {
  const Holder holder(zeros({1}).expand({3}));
  StateDict state;
  state.set("held", ones({3}));
  EXPECT_ERROR(ValueError, "\"held\" of the module is expanded", holder.load_state_dict(state));
}

TEST(Module, LoadErrorsListEverythingAndChangeNothing) {
  Model source, target;
  StateDict state = source.state_dict();
  state.set("first.fc.weight", zeros({2, 2}));
  state.set("first.scale", "text");
  state.set("extra.weight", zeros({1}));
  target.add_head();
  const std::vector<double> before = target.first.fc.bias.to_vector<double>();
  const std::string message = message_of<ValueError>([&] { target.load_state_dict(state); });
  for (const char* part : {"\"first.fc.weight\" has size [2, 2], the module's has [3, 3]",
                           "\"first.scale\" is a string, expected a tensor",
                           "missing: head.weight, head.bias", "unexpected: extra.weight"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nin: " << message;
  }
  EXPECT_EQ(target.first.fc.bias.to_vector<double>(), before);
  EXPECT_THROW(target.load_state_dict(state, false), ValueError);
  StateDict without_elements = source.state_dict();
  without_elements.set("first.fc.weight", empty({3, 3}, kNull));
  without_elements.set("first.fc.bias", full({3}, 7));
  EXPECT_ERROR(ValueError, "\"first.fc.weight\" is on the null device, which keeps no elements",
               target.load_state_dict(without_elements, false));
  EXPECT_EQ(target.first.fc.bias.to_vector<double>(), before);
  StateDict partial = source.state_dict();
  partial.set("extra.weight", zeros({1}));
  const LoadReport report = target.load_state_dict(partial, false);
  EXPECT_EQ(report.missing, (std::vector<std::string>{"head.weight", "head.bias"}));
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"extra.weight"}));
  EXPECT_TRUE(equal(target.first.fc.bias, source.first.fc.bias));
}

TEST(Module, MadeInInferenceModeItCanBeTrainedOutside) {
  struct Net : Module {
    Linear fc{*this, "fc", {.in = 2, .out = 3}};
    BatchNorm1d norm{*this, "norm", {.features = 3}};
    Parameter scale{*this, "scale", ones({1})};
    Buffer shift{*this, "shift", zeros({1})};

    Tensor forward(const Tensor& x) const override { return norm(fc(x)) * scale * exp(shift); }
  };
  const auto expect_trainable = [](Net& net) {
    for (const bool training : {true, false}) {  // in eval mode, buffers are kept for gradients
      net.train(training);
      net.zero_grad();
      net(tensor({1., 2., 3., 5.}, {2, 2})).square().sum().backward();
      for (const auto& [name, parameter] : net.named_parameters()) {
        EXPECT_TRUE(parameter.grad().defined()) << name;
      }
      net.scale = ones({1});
      net.shift = zeros({1});
    }
  };
  std::optional<Net> made, copied, converted;
  Net outside;
  {
    const InferenceMode inference;
    made.emplace();
    made->scale = ones({1});
    made->shift = zeros({1});
    made->eval();
    EXPECT_EQ((*made)(ones({4, 2})).size(1), 3);
    EXPECT_TRUE(made->fc.weight.requires_grad());
    copied = clone(outside);
    converted = clone(*made);
    converted->to(kFloat64);
    converted->to(kFloat32);
  }
  for (Net* net : {&*made, &*copied, &*converted}) expect_trainable(*net);
}

TEST(Module, ParametersOf16BitsHaveGradientsOfFloat32) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    Linear layer({.in = 2, .out = 2});
    const auto loss = [](const Linear& l) { return (l.weight.to(kFloat32) * 1e5).sum(); };
    loss(layer).backward();
    layer.to(dtype);
    EXPECT_EQ(layer.weight.dtype(), dtype);
    EXPECT_EQ(layer.weight.grad()[0][0].item(), 1e5) << "not rounded to 16 bits";
    loss(layer).backward();
    EXPECT_EQ(layer.weight.grad()[0][0].item(), 2e5);
    EXPECT_GT(utils::clip_grad_norm_({layer.weight}, 1e9), 1e5);
    const Linear copy = clone(layer);
    loss(copy).backward();
    EXPECT_EQ(copy.weight.grad().dtype(), kFloat32);
    layer.requires_grad_(false).requires_grad_(true);
    layer.zero_grad();
    layer.to(kFloat32);
    loss(layer).backward();
    EXPECT_EQ(layer.weight.grad()[1][1].item(), 1e5);
  }
}

TEST(Module, ConcurrentInferenceGivesTheSameResults) {
  Model model;
  model.eval();
  const Tensor x = randn({16, 3});
  const InferenceMode inference;
  const std::vector<float> expected = model(x).to_vector<float>();
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&] {
      const InferenceMode here;
      for (int i = 0; i < 50; ++i) count += model(x).to_vector<float>() != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(Module, ConcurrentCopiesAreComplete) {
  const Model model;
  std::vector<std::size_t> counts(4);
  std::vector<std::thread> threads;
  for (std::size_t& count : counts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Model copy = model;
        count += copy.parameters().size();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts, std::vector<std::size_t>(4, 400));
}

std::string local_name(const std::pair<std::string, std::vector<int>>& /*unused*/) {
  struct Local : Module {};
  return Local().type_name();
}

TEST(Module, TypesAreNamedWithoutWhatIsAroundThem) {
  EXPECT_EQ(local_name({}), "Local");
  EXPECT_EQ(Sequential().type_name(), "Sequential");
  struct Compared {
    std::string operator<(int) const {
      struct Local : Module {};
      return Local().type_name();
    }
  };
  EXPECT_EQ(Compared() < 1, "Local");
}

}  // namespace
}  // namespace facula::nn
