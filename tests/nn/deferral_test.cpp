// Inside modules, normalization waits until somebody reads it, and relu takes it along. Nothing of
// that may be visible but the speed - and the fused op on the tape, where nobody can look between.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <sstream>
#include <thread>

#include <facula/autograd.h>
#include <facula/memory.h>
#include <facula/nn.h>
#include <facula/ops.h>

#include "runtime/deferred.h"
#include "tests/support/expect.h"
#include "tests/support/problems.h"

namespace facula::nn {
namespace {

using runtime::deferral;

/// A module whose forward is written in the test.
struct Body : Module {
  using Forward = std::function<Tensor(const Body&, const Tensor&)>;
  explicit Body(Forward forward) : forward_(std::move(forward)) {
    manual_seed(1);
    const NoGradGuard no_grad;
    bn.weight.copy_(rand({kChannels}));
    bn.bias.copy_(randn({kChannels}));
    other.weight.copy_(rand({kChannels}));
  }
  Tensor forward(const Tensor& x) const override { return forward_(*this, x); }

  static constexpr std::int64_t kChannels = 20;
  BatchNorm2d bn{*this, "bn", {.features = kChannels}};
  BatchNorm2d other{*this, "other", {.features = kChannels}};
  ReLU relu{*this, "relu"};

 private:
  Forward forward_;
};

Tensor images(unsigned seed = 0) {
  manual_seed(seed);
  return randn({4, Body::kChannels, 32, 32}).contiguous(kChannelsLast);
}

/// Result, gradient of the input and of the weights of sum(output * factors).
std::vector<Tensor> outcome(const Body::Forward& forward, bool training = true) {
  Body body(forward);
  body.train(training);
  const Tensor x = images().requires_grad_(), factors = images(7);
  const Tensor y = body(x);
  sum(y * factors).backward();
  return {y.detach(), x.grad(), body.bn.weight.grad(), body.bn.bias.grad(), body.bn.running_var};
}

void expect_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double scale = amax(abs(b[i])).item<double>();
    EXPECT_LE(amax(abs(a[i] - b[i])).item<double>(), 3e-6 * scale) << "result " << i;
  }
}

/// What nobody can fuse: every value is looked at.
Tensor seen(const Tensor& x) {
  x.raw_data();
  return x;
}

TEST(Deferral, WhatAModuleKeepsIsComputedWhenForwardEnds) {
  Tensor kept, input = images();
  const Body body([&](const Body& b, const Tensor& x) {
    kept = b.bn(x);
    EXPECT_NE(deferral(kept), nullptr);
    return x * 2;
  });
  float* elements = input.data_ptr<float>();
  const Tensor expected = Body([](const Body& b, const Tensor& x) { return b.bn(x); })(input);
  body(input);
  EXPECT_EQ(deferral(kept), nullptr);
  elements[0] += 1000;  // behind the library's back, as whoever refills a buffer does
  expect_equal(kept, expected);
}

TEST(Deferral, WhatAModuleKeepsIsComputedWhenForwardThrows) {
  Tensor kept;
  const Body body([&](const Body& b, const Tensor& x) -> Tensor {
    kept = b.bn(x);
    return x.reshape({3});
  });
  EXPECT_THROW(body(images()), ShapeError);
  EXPECT_EQ(deferral(kept), nullptr);
}

TEST(Deferral, NormalizationWaitsInModulesOnly) {
  bool waits = false;
  const Body body([&](const Body& b, const Tensor& x) {
    const Tensor y = b.bn(x);
    waits = deferral(y) != nullptr;
    return y;
  });
  const Tensor y = body(images());
  EXPECT_TRUE(waits);
  EXPECT_EQ(deferral(y), nullptr) << "the outermost module returns elements";
  EXPECT_EQ(deferral(body.bn(images())), nullptr);
  EXPECT_EQ(deferral(batch_norm(images(), {}, {}, {}, {}, true)), nullptr);
}

TEST(Deferral, FusedResultsAreThoseOfTheParts) {
  for (bool training : {true, false}) {
    const auto fused =
        outcome([](const Body& b, const Tensor& x) { return relu(b.bn(x)); }, training);
    const auto parts =
        outcome([](const Body& b, const Tensor& x) { return relu(seen(b.bn(x))); }, training);
    expect_equal(fused[0], parts[0]);
    expect_close(fused, parts);
  }
}

TEST(Deferral, ReluMayHaveAnUpperBound) {
  for (bool training : {true, false}) {
    const auto expect_fused = [&](const Body::Forward& forward, const Body::Forward& same) {
      const auto fused = outcome(forward, training), parts = outcome(same, training);
      expect_equal(fused[0], parts[0]);
      expect_close(fused, parts);
    };
    expect_fused([](auto& b, auto& x) { return hardtanh(b.bn(x), 0, 0.7); },
                 [](auto& b, auto& x) { return hardtanh(seen(b.bn(x)), 0, 0.7); });
    expect_fused([](auto& b, auto& x) { return hardtanh(b.bn(x) + x, 0, 0.7); },
                 [](auto& b, auto& x) { return hardtanh(seen(seen(b.bn(x)) + x), 0, 0.7); });
    expect_fused([](auto& b, auto& x) { return hardtanh(b.bn(x), -0.5, 0.7); },
                 [](auto& b, auto& x) { return hardtanh(seen(b.bn(x)), -0.5, 0.7); });
  }
}

TEST(Deferral, FusedReluKeepsNaN) {
  for (bool training : {true, false}) {
    Body body([](const Body& b, const Tensor& x) { return relu(b.bn(x)); });
    body.train(training);
    const NoGradGuard no_grad;
    body.bn.bias.select(0, 2).fill_(std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(all(isnan(body(images()).select(1, 2))).item<bool>());
  }
}

TEST(Deferral, FusedSumsAreThoseOfTheParts) {
  for (bool training : {true, false}) {
    const auto parts = outcome(
        [](const Body& b, const Tensor& x) { return relu(seen(seen(b.bn(x)) + seen(b.other(x)))); },
        training);
    for (const auto& forward : std::vector<Body::Forward>{
             [](const Body&b, const Tensor&x) { return relu(b.bn(x) + b.other(x)); },
             [](const Body&b, const Tensor&x) { return relu(b.other(x) + seen(b.bn(x))); },
             [](const Body&b, const Tensor&x) { return relu(seen(b.other(x)) + b.bn(x)); }}) {
      const auto fused = outcome(forward, training);
      expect_close(fused, parts);
    }
    const auto plain = outcome(
        [](const Body& b, const Tensor& x) { return relu(seen(seen(b.bn(x)) + x)); }, training);
    const auto added =
        outcome([](const Body& b, const Tensor& x) { return relu(b.bn(x) + x); }, training);
    expect_equal(added[0], plain[0]);
    expect_close(added, plain);
  }
}

std::string printed(const Tensor& tensor) {
  std::ostringstream stream;
  stream << tensor;
  return stream.str();
}

/// The op that made the result of `forward`.
std::string made_by(const Body::Forward& forward) {
  const Body body(forward);
  const std::string text = printed(body(images().requires_grad_()));
  const std::size_t begin = text.rfind("grad_fn=<") + 9;
  return text.substr(begin, text.find('>', begin) - begin);
}

TEST(Deferral, OnlyWhatNobodyHoldsIsFusedOnTheTape) {
  EXPECT_EQ(made_by([](auto& b, auto& x) { return relu(b.bn(x)); }), "BatchNormReluBackward0");
  EXPECT_EQ(made_by([](auto& b, auto& x) { return b.relu(b.bn(x)); }), "BatchNormReluBackward0");
  EXPECT_EQ(made_by([](auto& b, auto& x) { return relu(b.bn(x) + x); }), "BatchNormReluBackward0");
  EXPECT_EQ(made_by([](auto& b, auto& x) { return hardtanh(b.bn(x), 0, 6); }),
            "BatchNormReluBackward0");
  EXPECT_EQ(made_by([](auto& b, auto& x) { return relu6(b.bn(x)); }), "BatchNormReluBackward0");
  EXPECT_EQ(made_by([](auto& b, auto& x) { return hardtanh(b.bn(x), -1, 6); }),
            "HardtanhBackward0");
  EXPECT_EQ(made_by([](auto& b, auto& x) {
              Tensor y = b.bn(x);
              return relu(std::move(y));
            }),
            "BatchNormReluBackward0");
  EXPECT_EQ(made_by([](auto& b, auto& x) {
              const Tensor y = b.bn(x);
              return relu(y);
            }),
            "ReluBackward0");
  EXPECT_EQ(made_by([](auto& b, auto& x) {
              Tensor y = b.bn(x);
              const Tensor kept = y;
              return relu(std::move(y));
            }),
            "ReluBackward0");
  EXPECT_EQ(made_by([](auto& b, auto& x) {
              const Tensor y = b.bn(x);
              return relu(y + x);
            }),
            "ReluBackward0");
}

TEST(Deferral, HooksBetweenSeeTheirGradients) {
  const Tensor x = images().requires_grad_();
  Tensor observed;
  const Body body([&](const Body& b, const Tensor& input) {
    Tensor y = b.bn(input);
    autograd::register_hook(y, [&](const Tensor& grad) {
      observed = grad;
      return Tensor();
    });
    return relu(std::move(y));
  });
  const Tensor y = body(x);
  sum(y).backward();
  expect_equal(observed, (y > 0).to(kFloat32));
}

TEST(Deferral, HooksOnSummandsSeeTheirGradients) {
  const Tensor x = images().requires_grad_();
  Tensor observed;
  const Body body([&](const Body& b, const Tensor& input) {
    Tensor y = b.bn(input);
    autograd::register_hook(y, [&](const Tensor& grad) {
      observed = grad;
      return Tensor();
    });
    return relu(std::move(y) + input);
  });
  const Tensor y = body(x);
  sum(y).backward();
  expect_equal(observed, (y > 0).to(kFloat32));
}

TEST(Deferral, SummandsThatWereReadMeanwhile) {
  const NoGradGuard no_grad;
  const Body body([](const Body& b, const Tensor& x) {
    const Tensor y = b.bn(x), shifted = b.other(x) + x;
    const Tensor total = y + shifted;
    amax(y);
    EXPECT_EQ(deferral(y), nullptr);
    EXPECT_NE(deferral(total), nullptr);
    return relu(total);
  });
  const Body parts([](const Body& b, const Tensor& x) {
    return relu(seen(seen(b.bn(x)) + seen(seen(b.other(x)) + x)));
  });
  expect_equal(body(images()), parts(images()));
}

TEST(Deferral, ForwardHooksSeeValues) {
  Body body([](const Body& b, const Tensor& x) { return b.relu(b.bn(x)); });
  Tensor between;
  body.bn.register_forward_hook([&](const Module&, const Tensor&, const Tensor& output) {
    between = output;
    return Tensor();
  });
  const Tensor y = body(images());
  expect_equal(relu(between), y);
}

TEST(Deferral, WritesToWhatIsStillToBeReadComeAfter) {
  const NoGradGuard no_grad;
  for (const auto& change : std::vector<std::function<void(const Tensor&)>>{
           [](const Tensor& x) { x.mul_(3); }, [](const Tensor& x) { x.zero_(); },
           [](const Tensor& x) { x.select(0, 1).fill_(5); },
           [](const Tensor& x) { x.data_ptr<float>()[0] = 1e6; },
           [](const Tensor& x) { x.copy_(images(3)); }}) {
    const Body changing([&](const Body& b, const Tensor& input) {
      const Tensor x = input.clone();
      Tensor y = b.bn(x);
      change(x);
      return y;
    });
    const Body plain([&](const Body& b, const Tensor& input) { return b.bn(input); });
    expect_equal(changing(images()), plain(images()));
  }
}

TEST(Deferral, InPlaceOpsOnWhatWaits) {
  const Body plain([](const Body& b, const Tensor& x) { return relu(seen(b.bn(x)) * 2); });
  const Body in_place([](const Body& b, const Tensor& x) {
    const Tensor y = b.bn(x);
    y.mul_(2);
    y.relu_();
    return y;
  });
  expect_equal(in_place(images()), plain(images()));
}

TEST(Deferral, ViewsOfWhatWaits) {
  const Body body([](const Body& b, const Tensor& x) {
    const Tensor y = b.bn(x), detached = y.detach();
    EXPECT_NE(deferral(detached), nullptr);
    const Tensor view = y.permute({0, 2, 3, 1});
    expect_equal(view.permute({0, 3, 1, 2}), detached);
    return y;
  });
  body(images());
}

TEST(Deferral, BroadcastSumsAndOtherOpsReadValues) {
  const auto parts = outcome([](const Body& b, const Tensor& x) {
    return seen(seen(b.bn(x)) + ones({Body::kChannels, 1, 1})) * 2 + exp(seen(b.other(x)));
  });
  const auto waiting = outcome([](const Body& b, const Tensor& x) {
    return (b.bn(x) + ones({Body::kChannels, 1, 1})) * 2 + exp(b.other(x));
  });
  expect_close(waiting, parts);
}

/// A block of a network: convolutions, normalization, a sum with a shortcut.
struct Block : Module {
  using Forward = std::function<Tensor(const Block&, const Tensor&)>;
  explicit Block(Forward forward) : forward_(std::move(forward)) {
    manual_seed(3);
    conv.reset_parameters();
    next.reset_parameters();
    shortcut.reset_parameters();
    const NoGradGuard no_grad;
    bn.weight.copy_(rand({kChannels}));
    bn.running_mean.copy_(randn({kChannels}));
  }
  Tensor forward(const Tensor& x) const override { return forward_(*this, x); }

  static constexpr std::int64_t kChannels = Body::kChannels;
  static Conv2dOptions convolution(std::int64_t kernel) {
    return {.in = kChannels, .out = kChannels, .kernel = kernel, .padding = kernel / 2};
  }
  Conv2d conv{*this, "conv", convolution(3)};
  Conv2d next{*this, "next", convolution(3)};
  Conv2d shortcut{*this, "shortcut", convolution(1)};
  BatchNorm2d bn{*this, "bn", {.features = kChannels}};

 private:
  Forward forward_;
};

TEST(Deferral, ConvolutionsTakeAlongWhatFollows) {
  const std::vector<std::pair<Block::Forward, Block::Forward>> pairs = {
      {[](auto& b, auto& x) { return relu(b.conv(x)); },
       [](auto& b, auto& x) { return relu(seen(b.conv(x))); }},
      {[](auto& b, auto& x) { return b.bn(b.conv(x)); },
       [](auto& b, auto& x) { return b.bn(seen(b.conv(x))); }},
      {[](auto& b, auto& x) { return relu(b.bn(b.conv(x))); },
       [](auto& b, auto& x) { return relu(seen(b.bn(seen(b.conv(x))))); }},
      {[](auto& b, auto& x) { return relu(b.bn(b.conv(x)) + b.bn(b.shortcut(x))); },
       [](auto& b, auto& x) {
         return relu(seen(seen(b.bn(seen(b.conv(x)))) + seen(b.bn(seen(b.shortcut(x))))));
       }},
      {[](auto& b, auto& x) {
         const Tensor y = b.conv(x);  // is read twice
         return relu(b.bn(y)) + y;
       },
       [](auto& b, auto& x) {
         const Tensor y = seen(b.conv(x));
         return relu(seen(b.bn(y))) + y;
       }},
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (bool training : {false, true}) {
      Block fused(pairs[i].first), parts(pairs[i].second);
      fused.train(training);
      parts.train(training);
      {
        const NoGradGuard no_grad;
        expect_equal(fused(images()), parts(images()));
      }
      const Tensor x = images().requires_grad_(), same = images().requires_grad_();
      const Tensor y = fused(x), expected = parts(same);
      sum(y * images(7)).backward();
      sum(expected * images(7)).backward();
      expect_close({y.detach(), x.grad(), fused.conv.weight.grad()},
                   {expected.detach(), same.grad(), parts.conv.weight.grad()});
    }
  }
}

TEST(Deferral, ConvolutionsAreComputedOnce) {
  const NoGradGuard no_grad;
  Tensor result;
  Block block([&](const Block& b, const Tensor& x) {
    result = b.conv(x);
    EXPECT_NE(deferral(result), nullptr);
    const Tensor y = relu(b.bn(result));
    EXPECT_EQ(deferral(result), nullptr) << "someone else may read it";
    Tensor moved = b.conv(x);
    const Tensor z = relu(std::move(moved));
    EXPECT_FALSE(moved.defined());
    return y + z;
  });
  block.eval();
  block(images());
}

/// Normalized values between two convolutions.
Tensor bottleneck(const Block& b, const Tensor& x) { return b.next(relu(b.bn(b.conv(x)))); }

TEST(Deferral, NormalizedValuesAreNotKeptForConvolutions) {
  const Tensor x = images();
  auto kept = [&](const Block::Forward& forward) {
    const Block block(forward);
    const std::int64_t before = cpu::memory_allocated();
    const Tensor y = block(x);
    return cpu::memory_allocated() - before;
  };
  const std::int64_t less =
      kept([](auto& b, auto& in) { return b.next(relu(seen(b.bn(b.conv(in))))); }) -
      kept(bottleneck);
  EXPECT_GE(less, x.nbytes() * 9 / 10);
  // Where the convolution is cheap, normalizing once more would be felt.
  EXPECT_GT(kept([](auto& b, auto& in) { return b.shortcut(relu(b.bn(b.conv(in)))); }),
            kept(bottleneck));
}

TEST(Deferral, NormalizedValuesComeBackForBackward) {
  Block block(bottleneck),
      other([](auto&b, auto&in) { return b.next(seen(relu(seen(b.bn(b.conv(in)))))); });
  const Tensor x = images().requires_grad_(), same = images().requires_grad_();
  const Tensor loss = sum(block(x) * images(7)), expected = sum(other(same) * images(7));
  loss.backward({}, true);
  loss.backward();
  expected.backward({}, true);
  expected.backward();
  expect_close({x.grad(), block.conv.weight.grad(), block.next.weight.grad()},
               {same.grad(), other.conv.weight.grad(), other.next.weight.grad()});
  // Through the gradient of the weights, which is a function of the values.
  auto second = [](const Block& b, const Tensor& input) {
    const Tensor y = sum(b(input) * images(7));
    const Tensor once = autograd::grad({y}, {b.next.weight}, {.create_graph = true})[0];
    return autograd::grad({sum(once * once)}, {input})[0];
  };
  expect_close({second(block, x)}, {second(other, same)});
}

TEST(Deferral, NormalizedValuesComeBackAsTheyWere) {
  const Block block(bottleneck), unchanged(bottleneck);
  const Tensor x = images();
  auto gradient = [&](const Block& b, bool change) {
    const Tensor loss = sum(b(x) * images(7));
    const NoGradGuard no_grad;
    if (change) b.bn.weight.mul_(3);
    return autograd::grad({loss}, {b.next.weight})[0];
  };
  expect_equal(gradient(block, true), gradient(unchanged, false));
}

TEST(Deferral, WeightsMayChangeWhileAConvolutionWaits) {
  const NoGradGuard no_grad;
  Block block([&](const Block& b, const Tensor& x) {
    const Tensor expected = seen(b.conv(x)).clone();
    const Tensor waiting = b.conv(x);
    b.conv.weight.mul_(2);
    expect_equal(waiting, expected);
    return waiting;
  });
  block(images());
}

TEST(Deferral, ManyThreadsMayReadOneResult) {
  const Body body([](const Body& b, const Tensor& x) {
    const Tensor expected = seen(b.bn(x));
    for (int round = 0; round < 20; ++round) {
      const Tensor y = b.bn(x);
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) threads.emplace_back([&] { expect_equal(y, expected); });
      for (std::thread& thread : threads) thread.join();
    }
    return expected;
  });
  const NoGradGuard no_grad;
  body(images());
}

TEST(Deferral, ErrorsAndUnreadResultsLeaveNothingBehind) {
  const Body failing([](const Body& b, const Tensor& x) {
    const Tensor y = b.bn(x);
    return y + ones({3});
  });
  EXPECT_ERROR(ShapeError, "broadcast", failing(images()));
  const Body forgetful([](const Body& b, const Tensor& x) {
    const Tensor y = b.bn(x), z = y + x;
    return x;
  });
  const Tensor x = images();
  expect_equal(forgetful(x), x);
  x.mul_(2);  // would compute what still waits for it
}

TEST(Deferral, CheckpointedSegmentsAndAnomalyModeWorkAsBefore) {
  const Body::Forward forward = [](const Body& b, const Tensor& x) { return relu(b.bn(x)); };
  auto plain = outcome(forward);
  {
    const autograd::AnomalyMode anomaly;
    expect_close(outcome(forward), plain);
  }
  auto checkpointed = outcome([&](const Body& b, const Tensor& x) {
    auto segment = [&](const std::vector<Tensor>& inputs) {
      return std::vector<Tensor>{forward(b, inputs[0])};
    };
    return autograd::checkpoint(segment, {x})[0];
  });
  // Running statistics change twice.
  plain.pop_back();
  checkpointed.pop_back();
  expect_close(checkpointed, plain);
}

// relu's zeros are found by means of the bias.
TEST(Deferral, ABiasChangedBeforeBackwardIsAnError) {
  Body body([](const Body& m, const Tensor& x) { return relu(m.bn(x)); });
  const Tensor y = body(images().requires_grad_());
  {
    const NoGradGuard no_grad;
    body.bn.bias.add_(1);
  }
  try {
    sum(y).backward();
    FAIL() << "nothing is thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("changed in place"), std::string::npos);
  }
}

TEST(Deferral, SequentialsHandTheirValuesOn) {
  Sequential model(Conv2d({.in = 3, .out = 20, .kernel = 3, .padding = 1}),
                   BatchNorm2d({.features = 20}), ReLU());
  manual_seed(4);
  const Tensor x = randn({2, 3, 40, 40});
  const std::string text = printed(model(x));
  EXPECT_NE(text.find("BatchNormReluBackward0"), std::string::npos) << text;
  expect_equal(x, [] {
    manual_seed(4);
    return randn({2, 3, 40, 40});
  }());
}

TEST(Deferral, PrintingSeesValues) {
  const Body body([](const Body& b, const Tensor& x) {
    const Tensor y = b.bn(x);
    const std::string text = y.str();
    EXPECT_EQ(text, seen(y).str());
    return y;
  });
  body(images());
}

TEST(Deferral, ChainsOfAnyLengthNeedNoStack) {
  constexpr int kCalls = kThreadSanitized ? 500 : kSanitized ? 2000 : 20000;
  for (const bool read : {true, false}) {
    Body body([read](const Body& b, const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < kCalls; ++i) y = b.bn(y) + y;
      return read ? y : x;
    });
    body.eval();
    const NoGradGuard no_grad;
    body.bn.weight.zero_();
    body.bn.bias.zero_();
    const Tensor x = randn({1, Body::kChannels, 41, 41});
    expect_equal(body(x), x);
  }
}

TEST(Deferral, ThreadsMayFuseWhatOthersRead) {
  const Body body([](const Body& b, const Tensor& x) {
    const Tensor expected = facula::relu(seen(b.bn(x)));
    for (int round = 0; round < 200; ++round) {
      const Tensor y = b.bn(x);
      std::thread reader([&] { y.raw_data(); });
      expect_equal(facula::relu(y), expected);
      reader.join();
    }
    return expected;
  });
  const NoGradGuard no_grad;
  body(images());
}

}  // namespace
}  // namespace facula::nn
