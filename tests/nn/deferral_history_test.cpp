// What waits may be read through tensors with another history: then nothing is fused on the tape.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <facula/autograd.h>
#include <facula/nn.h>
#include <facula/ops.h>

#include "tests/support/expect.h"
#include "tests/support/problems.h"

namespace facula::nn {
namespace {

/// A module whose forward is written in the test.
struct Body : Module {
  using Forward = std::function<Tensor(const Body&, const Tensor&)>;
  explicit Body(Forward forward) : forward_(std::move(forward)) {}
  Tensor forward(const Tensor& x) const override { return forward_(*this, x); }
  /// What nobody can fuse with `looked`.
  Tensor seen(Tensor value) const {
    if (looked) value.raw_data();
    return value;
  }

  static constexpr std::int64_t kChannels = 8;
  BatchNorm2d bn{*this, "bn", {.features = kChannels}};
  Conv2d conv{*this, "conv", {.in = kChannels, .out = kChannels, .kernel = 3, .padding = 1}};
  /// It has so many weights that it saves how its input was normalized instead of that.
  Conv2d wide{*this, "wide", {.in = kChannels, .out = 2 * kChannels, .kernel = 3, .padding = 1}};
  Linear linear{*this, "linear", {.in = 32, .out = 32}};
  Tensor skip;
  bool looked = false;

 private:
  Forward forward_;
};

Tensor images(MemoryFormat format = kChannelsLast) {
  return randn({4, Body::kChannels, 32, 32}).contiguous(format);
}

/// Its result has the memory of its input.
struct Reverse : autograd::Function<Reverse> {
  static std::vector<Tensor> forward(autograd::FunctionContext&, const std::vector<Tensor>& x) {
    return {x[0]};
  }
  static std::vector<Tensor> backward(autograd::FunctionContext&, const std::vector<Tensor>& g) {
    return {neg(g[0])};
  }
};

struct Outcome {
  Tensor value;
  std::vector<Tensor> gradients;  ///< of input, weight, bias and skip, undefined ones too
};

Outcome outcome(const Body::Forward& forward, bool training, bool looked, bool of_input = true) {
  manual_seed(1);
  Body body(forward);
  body.train(training);
  body.looked = looked;
  const Tensor x = images().requires_grad_(of_input);
  body.skip = images().requires_grad_();
  const Tensor y = body(x);
  sum(y * y * images()).backward();
  return {y.detach(), {x.grad(), body.bn.weight.grad(), body.bn.bias.grad(), body.skip.grad()}};
}

/// Values and gradients are those of the ops one by one, in training and in evaluation.
void expect_like_parts(const Body::Forward& forward, bool of_input = true) {
  for (bool training : {true, false}) {
    const Outcome fused = outcome(forward, training, false, of_input);
    const Outcome parts = outcome(forward, training, true, of_input);
    expect_equal(fused.value, parts.value);
    for (std::size_t i = 0; i < fused.gradients.size(); ++i) {
      const Tensor &a = fused.gradients[i], &b = parts.gradients[i];
      ASSERT_EQ(a.defined(), b.defined()) << "gradient " << i << " training " << training;
      if (!a.defined()) continue;
      const double scale = amax(abs(b)).item<double>();
      EXPECT_LE(amax(abs(a - b)).item<double>(), 1e-5 * scale) << "gradient " << i;
    }
  }
}

TEST(DeferralHistory, CustomFunctionsBetweenNormalizationAndRelu) {
  const auto reversed = [](Tensor x) { return std::move(Reverse::apply({std::move(x)})[0]); };
  expect_like_parts(
      [=](const Body& b, const Tensor& x) { return relu(reversed(b.seen(b.bn(x)))); });
  expect_like_parts([=](const Body& b, const Tensor& x) {
    return relu(reversed(b.seen(b.seen(b.bn(x)) + b.skip)));
  });
  expect_like_parts([=](const Body& b, const Tensor& x) {
    return relu(b.seen(reversed(b.seen(b.bn(x))) + b.skip));
  });
}

TEST(DeferralHistory, DetachedValuesPassNoGradientOn) {
  expect_like_parts(
      [](const Body& b, const Tensor& x) { return relu(b.seen(b.bn(x).detach()) + b.skip); });
  expect_like_parts([](const Body& b, const Tensor& x) {
    return relu(b.seen(b.seen(b.bn(x)) + b.skip).detach()) + b.skip;
  });
}

TEST(DeferralHistory, ValuesMadeWithoutRecordingPassNoGradientOn) {
  for (bool first : {true, false}) {
    expect_like_parts([=](const Body& b, const Tensor& x) {
      Tensor normalized;
      {
        const NoGradGuard no_grad;
        normalized = b.seen(b.bn(x));
      }
      return first ? relu(std::move(normalized) + b.skip) : relu(b.skip + std::move(normalized));
    });
  }
}

TEST(DeferralHistory, GradientsAskedForLaterDoNotReachBack) {
  expect_like_parts(
      [](const Body& b, const Tensor& x) {
        Tensor normalized = b.seen(b.bn(x));
        x.requires_grad_();
        return relu(std::move(normalized));
      },
      false);
}

TEST(DeferralHistory, SumsKeepTheLayoutOfTheirFirstOperand) {
  const NoGradGuard no_grad;
  for (bool normalized_first : {true, false}) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Body::Forward forward = [=](const Body& b, const Tensor& x) {
        const Tensor y = b.seen(b.bn(x));
        return relu(b.seen(normalized_first ? y + b.skip : b.skip + y));
      };
      Body fused(forward), parts(forward);
      parts.looked = true;
      fused.skip = parts.skip = images(format == kContiguous ? kChannelsLast : kContiguous);
      const Tensor x = images(format);
      EXPECT_EQ(fused(x).strides().vec(), parts(x).strides().vec());
    }
  }
}

TEST(DeferralHistory, OneChannelOrPixelKeepsItsLayout) {
  const NoGradGuard no_grad;
  struct Narrow : Module {
    explicit Narrow(bool looked) : looked(looked) {}
    Tensor forward(const Tensor& x) const override {
      Tensor y = conv(x);
      if (looked) y.raw_data();
      y = bn(std::move(y));
      if (looked) y.raw_data();
      return relu(std::move(y));
    }
    Conv2d conv{*this, "conv", {.in = 16, .out = 1, .kernel = 3, .padding = 1}};
    BatchNorm2d bn{*this, "bn", {.features = 1}};
    const bool looked;
  };
  manual_seed(1);
  Narrow fused(false);
  manual_seed(1);
  Narrow parts(true);
  fused.eval();
  parts.eval();
  const Tensor x = randn({64, 16, 32, 32}).contiguous(kChannelsLast);
  const Tensor y = fused(x), expected = parts(x);
  expect_equal(y, expected);
  EXPECT_EQ(y.strides().vec(), expected.strides().vec());
  EXPECT_TRUE(y.is_contiguous(kChannelsLast));
  EXPECT_EQ(y.strides()[1], 1);
}

// The result of a dead temporary's op goes into its memory, whatever the other operand waits for.
TEST(DeferralHistory, DeadTemporariesMeetOperandsThatWait) {
  using Waiting = Tensor (*)(const Body&, const Tensor&);
  const Waiting operands[] = {
      [](const Body& b, const Tensor& x) { return b.conv(x); },
      [](const Body& b, const Tensor& x) { return b.linear(x); },
      [](const Body& b, const Tensor& x) { return b.bn(x); },
      [](const Body& b, const Tensor& x) { return b.bn(x) + x; },
  };
  using Binary = Tensor (*)(Tensor, const Tensor&);
  const Binary ops[] = {
      [](Tensor a, const Tensor& b) { return std::move(a) + b; },
      [](Tensor a, const Tensor& b) { return std::move(a) - b; },
      [](Tensor a, const Tensor& b) { return std::move(a) * b; },
      [](Tensor a, const Tensor& b) { return relu(std::move(a) + b); },
      [](Tensor a, const Tensor& b) { return maximum(std::move(a), b); },
  };
  for (const Waiting operand : operands) {
    for (const Binary op : ops) {
      for (bool held : {false, true}) {
        expect_like_parts([=](const Body& b, const Tensor& x) {
          if (!held) return op(x * 2, b.seen(operand(b, x)));
          const Tensor y = b.seen(operand(b, x));
          return op(x * 2, y);
        });
      }
    }
  }
}

TEST(DeferralHistory, WritesByAddressReachTheGradientsOfWeights) {
  const Body body([](const Body& b, const Tensor& x) {
    const Tensor y = relu(b.bn(x));
    float* data = y.data_ptr<float>();
    std::fill(data, data + y.numel(), 1.0f);
    return b.wide(y);
  });
  body(images()).sum().backward();
  const Tensor middle = body.wide.weight.grad().narrow(2, 1, 1).narrow(3, 1, 1);
  EXPECT_LT(amax(abs(middle - 4 * 32 * 32)).item<double>(), 1e-2);
}

TEST(DeferralHistory, WritesByAddressBetweenForwardAndBackwardDoNotReachBack) {
  std::vector<float> elements(static_cast<std::size_t>(images().numel()));
  const Tensor foreign = from_blob(elements.data(), images().sizes(), kFloat32);
  using Written = std::function<float*(const Body&)>;
  const Written addresses[] = {
      [](const Body& b) { return b.bn.weight.data_ptr<float>(); },
      [](const Body& b) { return b.bn.bias.data_ptr<float>(); },
      [&](const Body&) { return elements.data(); },
  };
  for (const Written& address : addresses) {
    const auto gradient = [&](bool write) {
      manual_seed(1);
      foreign.copy_(images(kContiguous));
      const Body body([](const Body& b, const Tensor& x) { return b.wide(relu(b.bn(x))); });
      float* data = address(body);
      const Tensor y = body(foreign);
      if (write) std::fill_n(data, Body::kChannels, 100.0f);
      sum(y * y).backward();
      return body.wide.weight.grad();
    };
    expect_equal(gradient(true), gradient(false));
  }
}

TEST(DeferralHistory, TensorsOfInferenceModeAreNotSaved) {
  for (const bool frozen_input : {true, false}) {
    expect_like_parts([=](const Body& b, const Tensor& x) {
      Tensor features = x.detach(), normalized;
      {
        const InferenceMode inference;
        if (frozen_input) features = features * 1;
        normalized = b.seen(b.bn(features));
      }
      return relu(b.seen(std::move(normalized) + b.skip));
    });
  }
}

TEST(DeferralHistory, ResultsAreDroppedWhileOthersLookForThem) {
  Sequential net{BatchNorm2d({.features = 32}), ReLU()};
  net.eval();
  const Tensor x = randn({1, 32, 32, 32});
  std::atomic<bool> stop = false;
  // Whoever gets an address has waiting readers of the memory computed.
  std::thread other([&] {
    while (!stop) (void)x.data_ptr<float>();
  });
  {
    const NoGradGuard no_grad;
    for (int i = 0; i < (kSanitized ? 300 : 20000); ++i) const Tensor dropped = net(x);
  }
  stop = true;
  other.join();
}

TEST(DeferralHistory, ModulesMayBeConvertedAfterACall) {
  const NoGradGuard no_grad;
  Sequential net{Conv2d({.in = 8, .out = 32, .kernel = 3, .padding = 1}), ReLU()};
  const Tensor x = randn({1, 8, 40, 40}), expected = net(x).clone();
  net[0].register_forward_pre_hook([](const Module& m, const Tensor&) {
    const_cast<Module&>(m).to(kFloat32);
    return Tensor();
  });
  net[0].register_forward_hook([](const Module& m, const Tensor&, const Tensor&) {
    const_cast<Module&>(m).to(kFloat64);
    return Tensor();
  });
  EXPECT_TRUE(equal(net(x), expected));
}

}  // namespace
}  // namespace facula::nn
