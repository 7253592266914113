// Inside modules, a linear layer waits until somebody reads its result, and takes along the
// activation that does. Nothing of that may be visible but the speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include <facula/autograd.h>
#include <facula/nn.h>
#include <facula/ops.h>

#include "runtime/deferred.h"
#include "runtime/dispatch.h"
#include "tests/support/expect.h"

namespace facula::nn {
namespace {

using runtime::deferral;

/// A module whose forward is written in the test.
struct Body : Module {
  using Forward = std::function<Tensor(const Body&, const Tensor&)>;
  explicit Body(Forward forward) : forward_(std::move(forward)) {
    manual_seed(1);
    fc.reset_parameters();
    next.reset_parameters();
  }
  Tensor forward(const Tensor& x) const override { return forward_(*this, x); }

  static constexpr std::int64_t kIn = 40, kOut = 150, kRows = 256;
  Linear fc{*this, "fc", {.in = kIn, .out = kOut}};
  Linear next{*this, "next", {.in = kOut, .out = kOut}};
  nn::ReLU relu{*this, "relu"};

 private:
  Forward forward_;
};

Tensor rows(std::int64_t count = Body::kRows) {
  manual_seed(5);
  return randn({count, Body::kIn});
}

Tensor factors() {
  manual_seed(7);
  return randn({Body::kRows, Body::kOut});
}

/// What nobody can fuse: every value is looked at.
Tensor seen(const Tensor& x) {
  x.raw_data();
  return x;
}

/// While it lives, notes which of the ops with several implementations run.
class Runs : runtime::Selector {
 public:
  Runs() { runtime::set_selector(this); }
  ~Runs() override { runtime::set_selector(nullptr); }
  int of(OpId op) const { return static_cast<int>(std::count(ops_.begin(), ops_.end(), op)); }

 private:
  std::size_t select(const std::vector<Implementation>& list, const KernelArgs& args) override {
    ops_.push_back(args.call.op.id);
    return list.size();
  }
  std::vector<OpId> ops_;
};

/// How often a linear layer ran together with its activation in `forward`, and alone.
struct Count {
  int fused, alone;
  bool operator==(const Count&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Count& count) {
  return out << count.fused << " fused, " << count.alone << " alone";
}
Count count(const Body& body) {
  const Runs runs;
  body(rows());
  return {runs.of(OpId::linear_fused), runs.of(OpId::linear)};
}
Count count(const Body::Forward& forward) { return count(Body(forward)); }

constexpr Count kFused = {1, 0}, kAlone = {0, 1};

TEST(LinearDeferral, LayersTakeReluAlong) {
  const std::vector<Body::Forward> forwards = {
      [](auto& b, auto& x) { return relu(b.fc(x)); },
      [](auto& b, auto& x) { return b.fc(x).relu(); },
      [](auto& b, auto& x) { return relu6(b.fc(x)); },
      [](auto& b, auto& x) { return b.fc(x).relu6(); },
      [](auto& b, auto& x) { return hardtanh(b.fc(x), 0, 0.5); },
      [](auto& b, auto& x) { return relu(addmm(b.fc.bias, x, b.fc.weight.t())); },
      [](auto& b, auto& x) {
        Tensor y = b.fc(x);
        return relu(std::move(y));
      },
  };
  for (std::size_t i = 0; i < forwards.size(); ++i) {
    EXPECT_EQ(count(forwards[i]), kFused) << "form " << i;
    const NoGradGuard no_grad;
    EXPECT_EQ(count(forwards[i]), kFused) << "form " << i << ", nothing recorded";
  }
}

TEST(LinearDeferral, LayersTakeGeluAlongWhereNothingIsRecorded) {
  const std::vector<Body::Forward> forwards = {
      [](auto& b, auto& x) { return gelu(b.fc(x)); },
      [](auto& b, auto& x) { return gelu(b.fc(x), "tanh"); },
      [](auto& b, auto& x) { return b.fc(x).gelu("tanh"); },
  };
  for (std::size_t i = 0; i < forwards.size(); ++i) {
    const Body body(forwards[i]);
    EXPECT_EQ(count(body), kAlone) << "backward needs what gelu reads; form " << i;
    {
      const NoGradGuard no_grad;
      EXPECT_EQ(count(body), kFused) << "form " << i;
    }
    const InferenceMode inference;
    EXPECT_EQ(count(body), kFused) << "form " << i << " in inference mode";
  }
}

TEST(LinearDeferral, SequentialsHandTheirValuesOn) {
  Sequential model(Linear({.in = Body::kIn, .out = 300}), GELU(), Linear({.in = 300, .out = 200}),
                   ReLU(), Linear({.in = 200, .out = 150}), ReLU6(),
                   Linear({.in = 150, .out = 150}), GELU({.approximate = "tanh"}));
  const Runs runs;
  const Tensor recorded = model(rows());
  EXPECT_EQ(runs.of(OpId::linear_fused), 2);
  EXPECT_EQ(runs.of(OpId::linear), 2);
  const NoGradGuard no_grad;
  expect_equal(model(rows()), recorded.detach());
  EXPECT_EQ(runs.of(OpId::linear_fused), 6);
  EXPECT_EQ(runs.of(OpId::linear), 2);
}

TEST(LinearDeferral, OnlyWhatNobodyElseMayReadIsFused) {
  const std::vector<Body::Forward> forwards = {
      [](auto& b, auto& x) {
        const Tensor y = b.fc(x);
        return relu(y);
      },
      [](auto& b, auto& x) {
        Tensor y = b.fc(x);
        const Tensor kept = y;
        return relu(std::move(y));
      },
      [](auto& b, auto& x) {
        Tensor y = b.fc(x);
        const Tensor kept = y.detach();
        return relu(std::move(y)) + kept;
      },
      [](auto& b, auto& x) { return hardtanh(b.fc(x), -1, 1); },
      [](auto& b, auto& x) { return sigmoid(b.fc(x)); },
      [](auto& b, auto& x) {
        const NoGradGuard no_grad;
        const Tensor y = b.fc(x);
        y.relu_();
        return y;
      },
      [](auto& b, auto& x) { return relu(b.fc(x.slice(0, 0, 200))); },  // 30000 elements
  };
  for (std::size_t i = 0; i < forwards.size(); ++i) {
    EXPECT_EQ(count(forwards[i]), kAlone) << "form " << i;
  }
  const Runs runs;
  const Body body([](const Body& b, const Tensor& x) { return b.fc(x); });
  relu(body.fc(rows()));
  EXPECT_EQ(runs.of(OpId::linear_fused), 0) << "outside of any module";
  relu(body(rows()));
  EXPECT_EQ(runs.of(OpId::linear_fused), 0) << "the outermost module returns elements";
}

TEST(LinearDeferral, HooksAndModesSeeEveryResult) {
  const Body::Forward plain = [](auto& b, auto& x) { return relu(b.fc(x)); };
  {
    const autograd::AnomalyMode anomaly;
    EXPECT_EQ(count(plain), kAlone);
  }
  Tensor observed;
  const Body::Forward hooked = [&](const Body& b, const Tensor& x) {
    Tensor y = b.fc(x);
    autograd::register_hook(y, [&](const Tensor& grad) {
      observed = grad;
      return Tensor();
    });
    return relu(std::move(y));
  };
  EXPECT_EQ(count(hooked), kAlone);
  const Body body(hooked);
  const Tensor y = body(rows());
  sum(y).backward();
  expect_equal(observed, (y > 0).to(kFloat32));
}

TEST(LinearDeferral, ForwardHooksSeeTheLayersResult) {
  Body body([](const Body& b, const Tensor& x) { return b.relu(b.fc(x)); });
  Tensor between;
  body.fc.register_forward_hook([&](const Module&, const Tensor&, const Tensor& output) {
    between = output;
    return Tensor();
  });
  const Tensor y = body(rows());
  EXPECT_LT(amin(between).item<double>(), 0);
  expect_equal(relu(between), y);
}

/// Result and gradients of the input and all parameters of sum(output * factors).
std::vector<Tensor> outcome(const Body::Forward& forward) {
  const Body body(forward);
  const Tensor x = rows().requires_grad_();
  const Tensor y = body(x);
  sum(y * factors()).backward();
  return {y.detach(), x.grad(), body.fc.weight.grad(), body.fc.bias.grad()};
}

TEST(LinearDeferral, ResultsAndGradientsAreThoseOfTheParts) {
  const std::vector<std::pair<Body::Forward, Body::Forward>> pairs = {
      {[](auto& b, auto& x) { return relu(b.fc(x)); },
       [](auto& b, auto& x) { return relu(seen(b.fc(x))); }},
      {[](auto& b, auto& x) { return relu6(b.next(relu(b.fc(x)))); },
       [](auto& b, auto& x) { return relu6(seen(b.next(relu(seen(b.fc(x)))))); }},
      {[](auto& b, auto& x) { return gelu(b.next(b.fc(x))); },
       [](auto& b, auto& x) { return gelu(seen(b.next(seen(b.fc(x))))); }},
      {[](auto& b, auto& x) {
         const Tensor y = b.fc(x);  // is read twice
         return relu(y) + y;
       },
       [](auto& b, auto& x) {
         const Tensor y = seen(b.fc(x));
         return relu(y) + y;
       }},
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto fused = outcome(pairs[i].first), parts = outcome(pairs[i].second);
    for (std::size_t j = 0; j < parts.size(); ++j) expect_equal(fused[j], parts[j]);
    const NoGradGuard no_grad;
    expect_equal(Body(pairs[i].first)(rows()), parts[0]);
  }
}

TEST(LinearDeferral, SecondDerivativesAreThoseOfTheParts) {
  auto second = [](const Body::Forward& forward) {
    const Body body(forward);
    const Tensor x = rows().requires_grad_();
    const Tensor loss = sum(square(body(x)) * factors());
    const Tensor once = autograd::grad({loss}, {x}, {.create_graph = true})[0];
    return autograd::grad({sum(once * once)}, {body.fc.weight, x});
  };
  const auto fused = second([](auto& b, auto& x) { return relu(b.fc(x)); });
  const auto parts = second([](auto& b, auto& x) { return relu(seen(b.fc(x))); });
  expect_equal(fused[0], parts[0]);
  expect_equal(fused[1], parts[1]);
  EXPECT_GT(amax(abs(fused[0])).item<double>(), 0);
}

// Along one direction, since every one of 6000 weights would take minutes.
TEST(LinearDeferral, GradientsAreSlopes) {
  const Body body([](const Body& b, const Tensor& x) { return square(relu(b.fc(x))); });
  const Tensor x = rows(), wanted = factors();
  manual_seed(9);
  const Tensor direction = randn({Body::kOut, Body::kIn});
  auto loss = [&] { return sum(body(x).to(kFloat64) * wanted.to(kFloat64)); };
  const double slope =
      sum(autograd::grad({loss()}, {body.fc.weight})[0] * direction).item<double>();
  const NoGradGuard no_grad;
  constexpr double kStep = 1e-3;
  body.fc.weight.add_(direction * kStep);
  const double after = loss().item<double>();
  body.fc.weight.sub_(direction * (2 * kStep));
  const double before = loss().item<double>();
  EXPECT_NEAR((after - before) / (2 * kStep), slope, 1e-2 * std::abs(slope));
}

TEST(LinearDeferral, OperandsMayChangeWhileALayerWaits) {
  const NoGradGuard no_grad;
  for (const auto& change : std::vector<std::function<void(const Body&, const Tensor&)>>{
           [](auto&, auto&x) { x.mul_(3); }, [](auto&b, auto&) { b.fc.weight.mul_(2); },
           [](auto&b, auto&) { b.fc.bias.zero_(); }}) {
    const Body body([&](const Body& b, const Tensor& input) {
      const Tensor x = input.clone();
      const Tensor expected = seen(b.fc(x)).clone();
      Tensor waiting = b.fc(x);
      EXPECT_NE(deferral(waiting), nullptr);
      change(b, x);
      const Tensor y = relu(std::move(waiting));
      expect_equal(y, relu(expected));
      return y;
    });
    body(rows());
  }
}

TEST(LinearDeferral, SumsTakeOverTheMemoryOfWhatWaited) {
  const NoGradGuard no_grad;
  const Body body([](const Body& b, const Tensor& x) {
    const Tensor expected = seen(b.fc(x)) + factors();
    Tensor waiting = b.fc(x);
    const Tensor y = std::move(waiting) + factors();
    EXPECT_FALSE(waiting.defined());
    expect_equal(y, expected);
    return y;
  });
  body(rows());
}

TEST(LinearDeferral, ErrorsComeWithTheCall) {
  const Body body([](const Body& b, const Tensor& x) { return relu(b.next(x)); });
  EXPECT_ERROR(ShapeError, "linear: input has size", body(rows()));
}

}  // namespace
}  // namespace facula::nn
