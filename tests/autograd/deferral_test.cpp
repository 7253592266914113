// In backward passes, gradients at the inputs of convolutions and pooling wait for what reads them,
// and a sum or relu's gradient takes them along. Nothing of that may be visible but the speed.
#include <gtest/gtest.h>

#include <functional>

#include <facula/autograd.h>
#include <facula/nn.h>
#include <facula/ops.h>

#include "ops/attrs/conv2d_backward_input_fused.h"
#include "runtime/deferred.h"
#include "runtime/dispatch.h"
#include "tests/support/expect.h"
#include "tests/support/problems.h"

namespace facula::autograd {
namespace {

/// Counts the fused calls while it lives.
class FusedCalls : runtime::Selector {
 public:
  FusedCalls() { runtime::set_selector(this); }
  ~FusedCalls() override { runtime::set_selector(nullptr); }

  std::size_t select(const std::vector<Implementation>& list, const KernelArgs& args) override {
    const OpId id = args.call.op.id;
    if (id == OpId::conv2d_backward_input_fused) {
      sums += args.has(2);
      rectified += args.has(3);
    }
    if (id == OpId::max_pool2d_backward) pooled += args.has(2);
    return list.size();
  }

  int sums = 0, rectified = 0, pooled = 0;
};

struct Net : nn::Module {
  using Forward = std::function<Tensor(const Net&, const Tensor&)>;
  explicit Net(Forward forward) : forward_(std::move(forward)) {}
  Tensor forward(const Tensor& x) const override { return forward_(*this, x); }

  nn::Conv2d a{*this, "a", {.in = 16, .out = 16, .kernel = 3, .padding = 1}};
  nn::Conv2d b{*this, "b", {.in = 16, .out = 16, .kernel = 3, .padding = 1}};
  nn::Conv2d down{*this, "down", {.in = 16, .out = 16, .kernel = 3, .stride = 2, .padding = 1}};
  nn::Conv2d shortcut{*this, "shortcut", {.in = 16, .out = 16, .kernel = 1, .stride = 2}};
  nn::BatchNorm2d bn{*this, "bn", {.features = 16}};

 private:
  Forward forward_;
};

Tensor chain(const Net& net, const Tensor& x) {
  return max_pool2d(relu(net.b(relu(net.a(x)))), {2}, {2});
}
Tensor overlapping(const Net& net, const Tensor& x) {
  return max_pool2d(relu(net.a(x)), {3}, {2}, {1});
}
Tensor residual(const Net& net, const Tensor& x) {
  const Tensor y = relu(net.a(x));
  return net.b(y) + y;
}
Tensor normalized_residual(const Net& net, const Tensor& x) {
  const Tensor y = relu(net.bn(net.a(x)) + x);
  return net.b(y) * y;
}
Tensor downsampled(const Net& net, const Tensor& x) {
  const Tensor y = relu(net.a(x));
  return net.down(y) + net.shortcut(y);
}
Tensor three_readers(const Net& net, const Tensor& x) {
  const Tensor y = relu(net.a(x));
  return net.a(y) + net.b(y) * y;
}
Tensor without_outputs(const Net& net, const Tensor& x) {
  const Tensor y = relu(net.a(x));
  return cat({conv2d(y, ones({0, 16, 3, 3}), {}, {1}, {1}), y}, 1);
}
Tensor without_relu(const Net& net, const Tensor& x) { return net.b(net.a(x) + x) + x; }
Tensor detached(const Net& net, const Tensor& x) { return net.b(relu(net.a(x)).detach()) + x; }

struct Case {
  const char* name;
  Net::Forward forward;
  int sums, rectified, pooled;  ///< fused calls
};
const Case kCases[] = {
    {"chain", chain, 0, 1, 1},
    {"overlapping", overlapping, 0, 0, 1},
    {"residual", residual, 1, 1, 0},
    {"normalized_residual", normalized_residual, 2, 1, 0},
    {"downsampled", downsampled, 1, 1, 0},
    {"three_readers", three_readers, 2, 1, 0},
    {"without_relu", without_relu, 1, 0, 0},
    {"detached", detached, 0, 0, 0},
};

Tensor images(MemoryFormat format) {
  manual_seed(3);
  return randn({4, 16, 32, 32}).contiguous(format).requires_grad_();
}

/// All gradients of the sum of squares.
std::vector<Tensor> gradients(const Net::Forward& forward, MemoryFormat format) {
  manual_seed(5);
  const Net net(forward);
  const Tensor x = images(format);
  sum(square(net(x))).backward();
  std::vector<Tensor> results = {x.grad()};
  for (const auto& [name, parameter] : net.named_parameters()) results.push_back(parameter.grad());
  return results;
}

void expect_same(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].defined(), expected[i].defined()) << i;
    if (!actual[i].defined()) continue;
    expect_equal(actual[i], expected[i]);
    EXPECT_TRUE(actual[i].strides() == expected[i].strides()) << i;
  }
}

TEST(GradientDeferral, FusedGradientsHaveTheBitsOfTheParts) {
  for (const Case& c : kCases) {
    for (MemoryFormat format : some({kChannelsLast, kContiguous})) {
      SCOPED_TRACE(c.name);
      const FusedCalls calls;
      const std::vector<Tensor> fused = gradients(c.forward, format);
      EXPECT_EQ(calls.sums, c.sums);
      EXPECT_EQ(calls.rectified, c.rectified);
      EXPECT_EQ(calls.pooled, c.pooled);
      const AnomalyMode looks_at_every_gradient;
      expect_same(fused, gradients(c.forward, format));
    }
  }
}

// Their weights have no elements, and which layout their gradients have is open.
TEST(GradientDeferral, ConvolutionsMayHaveNoOutputs) {
  for (MemoryFormat format : {kChannelsLast, kContiguous}) {
    const std::vector<Tensor> fused = gradients(without_outputs, format);
    const AnomalyMode looks_at_every_gradient;
    expect_same(fused, gradients(without_outputs, format));
  }
}

TEST(GradientDeferral, ResultsHaveElements) {
  const Net net(chain);
  const Tensor x = images(kChannelsLast), y = sum(square(net(x)));
  const Tensor of_input = grad({y}, {x}, {.retain_graph = true})[0];
  EXPECT_EQ(runtime::deferral(of_input), nullptr);
  y.backward();
  EXPECT_EQ(runtime::deferral(x.grad()), nullptr);
  expect_equal(of_input, x.grad());
}

TEST(GradientDeferral, HooksSeeAndReplaceWhatWouldWait) {
  Tensor seen, kept, hooked;
  const auto between = [&](bool hook) {
    return gradients(
        [&, hook](const Net& net, const Tensor& x) {
          Tensor y = relu(net.a(x));
          if (hook) {
            register_hook(y, [&](const Tensor& gradient) {
              seen = clone(gradient);
              kept = gradient;
              return gradient * 2;
            });
            y.retain_grad();
            hooked = y;
          }
          return net.b(y) * (hook ? 1.0 : 2.0);
        },
        kChannelsLast);
  };
  between(true);
  ASSERT_TRUE(seen.defined());
  expect_equal(seen, kept);
  expect_equal(hooked.grad(), seen * 2);
}

TEST(GradientDeferral, HigherDerivativesAreRecorded) {
  const Net net(residual);
  const Tensor x = images(kChannelsLast);
  const Tensor first = grad({sum(square(net(x)))}, {x}, {.create_graph = true})[0];
  EXPECT_TRUE(first.requires_grad());
  const Tensor second = grad({sum(square(first))}, {x})[0];
  EXPECT_GT(amax(abs(second)).item<double>(), 0);
}

// An optimizer may run as soon as a gradient is complete, before one that waits reads the weights.
TEST(GradientDeferral, WeightsThatChangeMeanwhileDoNotMatter) {
  const auto of_input = [](bool change) {
    manual_seed(5);
    const Net net(chain);
    if (change) {
      for (const auto& [name, parameter] : net.named_parameters()) {
        register_post_accumulate_grad_hook(parameter, [](const Tensor& leaf) {
          const NoGradGuard no_grad;
          leaf.mul_(-3);
        });
      }
    }
    const Tensor x = images(kChannelsLast);
    sum(square(net(x))).backward();
    return x.grad();
  };
  expect_equal(of_input(true), of_input(false));
}

// So may an optimizer that took the addresses of weights long before.
TEST(GradientDeferral, WeightsWrittenByAddressMeanwhileDoNotMatter) {
  const auto of_input = [](bool change) {
    manual_seed(5);
    const Net net(chain);
    for (const auto& [name, parameter] : net.named_parameters()) {
      float* data = parameter.data_ptr<float>();
      if (!change) continue;
      register_post_accumulate_grad_hook(
          parameter, [=](const Tensor& leaf) { std::fill_n(data, leaf.numel(), 0.0f); });
    }
    const Tensor x = images(kChannelsLast);
    sum(square(net(x))).backward();
    return x.grad();
  };
  expect_equal(of_input(true), of_input(false));
}

TEST(GradientDeferral, CheckpointedSegmentsHaveTheSameGradients) {
  const auto of_input = [](bool again) {
    manual_seed(5);
    const Net net(chain);
    const Tensor x = images(kChannelsLast);
    const auto run = [&](const std::vector<Tensor>& inputs) {
      return std::vector<Tensor>{relu(net(relu(net(inputs[0])).expand({4, 16, 16, 16})))};
    };
    const Tensor y = again ? checkpoint(run, {x})[0] : run({x})[0];
    sum(square(y)).backward();
    return x.grad();
  };
  expect_equal(of_input(true), of_input(false));
}

}  // namespace
}  // namespace facula::autograd
