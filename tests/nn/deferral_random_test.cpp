// Random graphs in a module's forward(), once as they are and once with every value and gradient
// looked at, which leaves nothing to fuse: values, layouts and gradients must be the same.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <facula/autograd.h>
#include <facula/nn.h>
#include <facula/ops.h>

#include "tests/support/expect.h"
#include "tests/support/problems.h"

namespace facula::nn {
namespace {

constexpr std::int64_t kChannels = 8, kSize = 32;

struct Reverse : autograd::Function<Reverse> {
  static std::vector<Tensor> forward(autograd::FunctionContext&, const std::vector<Tensor>& x) {
    return {x[0]};
  }
  static std::vector<Tensor> backward(autograd::FunctionContext&, const std::vector<Tensor>& g) {
    return {neg(g[0])};
  }
};

/// Values of size [N, kChannels, kSize, kSize], the older ones first. Every step adds one that is
/// made of them.
class Graph {
 public:
  Graph(unsigned seed, bool looked, const Tensor& x) : random_(seed), looked_(looked) {
    values_.push_back(x * 1.0);
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool coin() { return below(2) == 0; }
  void add(Tensor value) { values_.push_back(seen(std::move(value))); }
  Tensor seen(Tensor value) const {
    if (looked_) value.raw_data();
    return value;
  }
  /// One of the last values; sometimes the graph gives up its own handle.
  Tensor take() {
    const int back = below(std::min(3, static_cast<int>(values_.size())));
    if (back > 0 || values_.size() == 1 || below(3) == 0) return values_[values_.size() - 1 - back];
    Tensor last = std::move(values_.back());
    values_.pop_back();
    return last;
  }
  Tensor any() { return values_[below(static_cast<int>(values_.size()))]; }
  Tensor total() const {
    Tensor sum = values_[0];
    for (std::size_t i = 1; i < values_.size(); ++i) sum = seen(sum + values_[i]);
    return sum;
  }

 private:
  std::mt19937 random_;
  const bool looked_;
  std::vector<Tensor> values_;
};

struct Net : Module {
  explicit Net(bool looked) : looked(looked) {
    const NoGradGuard no_grad;
    for (const BatchNorm2d* norm : {&bn, &other, &narrow_bn}) {
      norm->weight.copy_(randn(norm->weight.sizes()));
      norm->bias.copy_(randn(norm->bias.sizes()));
      norm->running_mean.copy_(randn(norm->bias.sizes()));
    }
  }

  Tensor forward(const Tensor& x) const override {
    Graph g(seed, looked, x);
    const int steps = 4 + g.below(9);
    for (int i = 0; i < steps; ++i) kSteps[g.below(std::size(kSteps))](*this, g);
    return g.total();
  }

  using Step = void (*)(const Net& net, Graph& g);
  static const Step kSteps[18];

  const bool looked;
  unsigned seed = 0;
  BatchNorm2d bn{*this, "bn", {.features = kChannels}};
  BatchNorm2d other{*this, "other", {.features = kChannels}};
  BatchNorm2d plain{*this, "plain", {.features = kChannels, .affine = false}};
  Conv2d conv{*this, "conv", {.in = kChannels, .out = kChannels, .kernel = 3, .padding = 1}};
  Conv2d narrow{*this, "narrow", {.in = kChannels, .out = 1, .kernel = 3, .padding = 1}};
  BatchNorm2d narrow_bn{*this, "narrow_bn", {.features = 1}};
  Conv2d wide{*this, "wide", {.in = 1, .out = kChannels, .kernel = 1}};
  Linear linear{*this, "linear", {.in = kSize, .out = kSize}};
};

const Net::Step Net::kSteps[] = {
    [](auto& net, auto& g) { g.add(net.bn(g.take())); },
    [](auto& net, auto& g) { g.add(net.other(g.take())); },
    [](auto& net, auto& g) { g.add(net.plain(g.take())); },
    [](auto&, auto& g) { g.add(relu(g.take())); },
    [](auto&, auto& g) { g.add(relu(g.take())); },
    [](auto&, auto& g) {
      const Tensor kept = g.take();
      g.add(hardtanh(kept, 0, 1.5));
    },
    [](auto&, auto& g) { g.add(g.take() + g.any()); },
    [](auto&, auto& g) { g.add(g.any() + g.take()); },
    [](auto&, auto& g) { g.add(g.seen(g.any() * 0.5) + g.take()); },
    [](auto&, auto& g) { g.add(g.seen(sigmoid(g.any())) * g.take()); },
    [](auto& net, auto& g) { g.add(net.conv(g.take())); },
    [](auto& net, auto& g) { g.add(net.conv(g.any()) + max_pool2d(g.take(), {3}, {1}, {1})); },
    [](auto& net, auto& g) { g.add(net.linear(g.take())); },
    [](auto&, auto& g) { g.add(gelu(g.take())); },
    [](auto&, auto& g) {
      g.add(g.seen(g.any().permute({0, 1, 3, 2})) + 0.25);
    },
    [](auto& net, auto& g) {
      const Tensor y = g.seen(relu(g.seen(net.narrow_bn(g.seen(net.narrow(g.take()))))));
      g.add(net.wide(y));
    },
    [](auto&, auto& g) { g.add(g.coin() ? g.take().detach() : Reverse::apply({g.take()})[0]); },
    [](auto& net, auto& g) {
      const NoGradGuard no_grad;
      g.add(net.bn(g.take()));
    },
};

/// How a graph is run, drawn from its number.
struct Setting {
  bool training, recording, channels_last, frozen, of_input;

  explicit Setting(unsigned number) {
    std::mt19937 random(number * 7 + 1);
    training = random() % 2;
    recording = random() % 3;
    channels_last = random() % 2;
    frozen = random() % 3 == 0;
    of_input = random() % 3;
  }
};

/// The result, then all gradients and buffers, undefined ones too.
std::vector<Tensor> outcome(unsigned number, const Setting& setting, bool looked) {
  manual_seed(number);
  Net net(looked);
  net.seed = number;
  net.train(setting.training);
  if (setting.frozen) {
    net.conv.weight.requires_grad_(false);
    net.bn.weight.requires_grad_(false);
    net.other.bias.requires_grad_(false);
  }
  Tensor x = randn({4, kChannels, kSize, kSize});
  const Tensor factors = randn(x.sizes());
  if (setting.channels_last) x = x.contiguous(kChannelsLast);
  x.requires_grad_(setting.recording && setting.of_input);
  const AutoGradMode mode(setting.recording);
  std::optional<autograd::AnomalyMode> looks_at_gradients;
  if (looked) looks_at_gradients.emplace();
  const Tensor y = net(x);
  if (y.requires_grad()) sum(y * factors).backward();
  std::vector<Tensor> results = {y.detach(), x.grad()};
  for (const auto& [name, parameter] : net.named_parameters()) results.push_back(parameter.grad());
  for (const auto& [name, buffer] : net.named_buffers()) results.push_back(buffer);
  return results;
}

double largest(const Tensor& x) { return amax(abs(x.to(kFloat64))).item<double>(); }

TEST(Deferral, RandomGraphsAreWhatTheyAreOpByOp) {
  for (unsigned number = 0; number < unsigned{problems(300)}; ++number) {
    const Setting setting(number);
    const auto fused = outcome(number, setting, false), parts = outcome(number, setting, true);
    SCOPED_TRACE("graph " + std::to_string(number));
    expect_equal(fused[0], parts[0]);
    EXPECT_EQ(fused[0].strides().vec(), parts[0].strides().vec());
    ASSERT_EQ(fused.size(), parts.size());
    for (std::size_t i = 1; i < fused.size(); ++i) {
      ASSERT_EQ(fused[i].defined(), parts[i].defined()) << "result " << i;
      if (!fused[i].defined()) continue;
      // Sums of gradients go in another order.
      EXPECT_LE(largest(fused[i] - parts[i]), 3e-5 * largest(parts[i]) + 1e-30) << "result " << i;
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace facula::nn
