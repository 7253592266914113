#include <facula/generator.h>
#include <facula/optim/optimizer.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <facula/autograd.h>
#include <facula/error.h>
#include <facula/generator.h>
#include <facula/memory.h>
#include <facula/nn/layers.h>
#include <facula/ops.h>
#include <facula/parallel.h>

#include "runtime/mode.h"
#include "tests/support/expect.h"
#include "tests/support/memory_cap.h"

namespace facula::optim {
namespace {

// Expected values: PyTorch 1.13.1 in float64,
//   p = Parameter(tensor([1., -2., 0.5])); q = Parameter(tensor([[0.3]])); o = SGD([p, q], lr=0.1)
//   for t in range(1, 5):
//     p.grad = tensor([0.1 * t, -0.2, 0.3 / t])
//     q.grad = tensor([[0.5 - 0.1 * t]]) if t != 2 else None
//     o.step()
template <class Optimizer, class Options>
std::vector<double> train(Options options, DType dtype = kFloat64) {
  const Tensor p = tensor({1, -2, 0.5}, {3}, dtype).requires_grad_();
  const Tensor q = tensor({0.3}, {1, 1}, dtype).requires_grad_();
  Optimizer optimizer({p, q}, options);
  for (int t = 1; t <= 4; ++t) {
    p.set_grad(tensor({0.1 * t, -0.2, 0.3 / t}, {3}, dtype));
    q.set_grad(t == 2 ? Tensor() : tensor({0.5 - 0.1 * t}, {1, 1}, dtype));
    optimizer.step();
  }
  std::vector<double> values = p.to_vector<double>();
  values.push_back(q.item());
  return values;
}

template <class Optimizer, class Options>
void expect_trained(Options options, const std::vector<double>& expected) {
  const std::vector<double> wide = train<Optimizer>(options);
  const std::vector<double> narrow = train<Optimizer>(options, kFloat32);
  const runtime::ModeGuard reference(runtime::kReference);
  const std::vector<double> exact = train<Optimizer>(options);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(wide[i], expected[i], 1e-11) << i;
    EXPECT_NEAR(exact[i], expected[i], 1e-11) << i;
    EXPECT_NEAR(narrow[i], expected[i], 2e-6) << i;
  }
}

TEST(SGD, EqualsPyTorch) {
  expect_trained<SGD>(SGDOptions{.lr = 0.1}, {0.9, -1.92, 0.4375, 0.23});
  expect_trained<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
                      {0.805571046311, -1.80122611262, 0.32550012568, 0.1420903997});
  expect_trained<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
                      {0.89001, -1.87512, 0.363255, 0.1676});
  expect_trained<SGD>(
      SGDOptions{
          .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true, .maximize = true},
      {1.25440323165, -2.21797668611, 0.708931136025, 0.507865624702});
}

// Expected values: PyTorch 1.13.1, which begins a buffer with the gradient itself when momentum is
// turned on, or when a parameter has its first gradient after that, whatever the number of steps.
TEST(SGD, MomentumMayBeTurnedOnLater) {
  const double expected[][2] = {{0.99, 0.98},  {0.97, 0.96},  {0.94, 0.96},
                                {0.893, 0.94}, {0.843, 0.92}, {0.7707, 0.892}};
  const Tensor p = tensor({1.0}, {1}, kFloat64).requires_grad_();
  const Tensor q = tensor({1.0}, {1}, kFloat64).requires_grad_();
  SGD optimizer({p, q}, {.lr = 0.1});
  for (int t = 1; t <= 6; ++t) {
    if (t == 3) optimizer.set_options(0, {.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
    if (t == 5) optimizer.set_momentum(0, 0);
    if (t == 6) optimizer.set_momentum(0, 0.9);
    p.set_grad(tensor({0.1 * t}, {1}, kFloat64));
    q.set_grad(t == 3 ? Tensor() : tensor({0.2}, {1}, kFloat64));
    optimizer.step();
    EXPECT_NEAR(p.item(), expected[t - 1][0], 1e-12) << t;
    EXPECT_NEAR(q.item(), expected[t - 1][1], 1e-12) << t;
  }
}

TEST(Adam, EqualsPyTorch) {
  expect_trained<Adam>(AdamOptions{.lr = 0.1},
                       {0.611640672126, -1.60000002, 0.137342313739, 0.0225118785573});
  expect_trained<Adam>(
      AdamOptions{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-4, .weight_decay = 0.01},
      {0.600859279815, -1.60039300782, 0.147095605309, 0.0282689334504});
  expect_trained<Adam>(AdamOptions{.lr = 0.1, .amsgrad = true, .maximize = true},
                       {1.38835932787, -2.39999998, 0.862657686261, 0.577488121443});
}

TEST(AdamW, EqualsPyTorch) {
  expect_trained<AdamW>(AdamWOptions{.lr = 0.1},
                        {0.60823510819, -1.59261161207, 0.13591867038, 0.0219058962132});
  expect_trained<AdamW>(AdamWOptions{.lr = 0.1, .weight_decay = 0.1, .amsgrad = true},
                        {0.578085495119, -1.5271521397, 0.123338614528, 0.0165237581169});
}

TEST(Adam, RoundsLikeDivision) {
  constexpr std::int64_t kCount = 20000;
  const double lr = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  Generator generator(5);
  // Magnitudes over the whole range in which squares are normal.
  const Tensor grad = randn({kCount}, {}, &generator) * exp(randn({kCount}, {}, &generator) * 8);
  const Tensor p = zeros({kCount}).requires_grad_();
  Adam adam({p}, {.lr = lr, .beta1 = beta1, .beta2 = beta2, .eps = eps});
  p.set_grad(grad);
  adam.step();
  const auto correction = static_cast<float>(std::sqrt(1 - beta2));
  const auto step_size = static_cast<float>(-lr / (1 - beta1));
  Tensor expected = zeros({kCount});
  for (std::int64_t i = 0; i < kCount; ++i) {
    const float g = grad.data_ptr<float>()[i];
    const float mean = g * static_cast<float>(1 - beta1);
    const float square = static_cast<float>(1 - beta2) * g * g;
    const float denominator = std::sqrt(square) / correction + static_cast<float>(eps);
    expected.data_ptr<float>()[i] = step_size * mean / denominator;
  }
  EXPECT_TRUE(equal(p.detach(), expected));
}

// As in PyTorch: where the square of a gradient is infinite, so is what its mean is divided by.
TEST(AdamW, StaysWhereSquaresAreInfinite) {
  const Tensor p = full({40}, 2.0).requires_grad_();
  AdamW adam({p}, {.lr = 0.1, .weight_decay = 0});
  p.set_grad(full({40}, 1e30));
  adam.step();
  EXPECT_TRUE(equal(p.detach(), full({40}, 2.0)));
  p.set_grad(full({40}, std::numeric_limits<double>::quiet_NaN()));
  adam.step();
  EXPECT_TRUE(all(isnan(p.detach())).item<bool>());
}

/// Sizes around a cache line and a slice, with an empty one.
std::vector<Tensor> many_parameters() {
  std::vector<Tensor> params;
  Generator generator(3);
  for (std::int64_t size : {1, 15, 16, 17, 0, 16383, 16384, 16385, 50000, 7}) {
    params.push_back(randn({size}, {}, &generator).requires_grad_());
  }
  return params;
}

template <class Optimizer, class Options>
std::vector<std::vector<float>> train_many(Options options) {
  const std::vector<Tensor> params = many_parameters();
  Optimizer optimizer(params, options);
  Generator generator(4);
  for (int t = 0; t < 3; ++t) {
    for (const Tensor& param : params) param.set_grad(randn(param.sizes(), {}, &generator));
    optimizer.step();
  }
  std::vector<std::vector<float>> values;
  for (const Tensor& param : params) values.push_back(param.to_vector<float>());
  return values;
}

TEST(Optimizer, EveryElementIsUpdatedOnceWhateverTheNumberOfThreads) {
  const SGDOptions sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01};
  const AdamWOptions adamw{.lr = 0.1};
  const int threads = get_num_threads();
  const auto expected_sgd = train_many<SGD>(sgd);
  const auto expected_adamw = train_many<AdamW>(adamw);
  for (int count : {1, 2, 3, 8}) {
    set_num_threads(count);
    EXPECT_EQ(train_many<SGD>(sgd), expected_sgd) << count;
    EXPECT_EQ(train_many<AdamW>(adamw), expected_adamw) << count;
  }
  set_num_threads(threads);
  const runtime::ModeGuard reference(runtime::kReference);
  const auto exact = train_many<AdamW>(adamw);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    for (std::size_t k = 0; k < exact[i].size(); ++k) {
      ASSERT_NEAR(expected_adamw[i][k], exact[i][k], 1e-4) << i << " " << k;
    }
  }
}

// As many as several threads take up at once.
TEST(Optimizer, StepsParametersThatShareElementsOneAfterTheOther) {
  constexpr std::int64_t kMany = 300000;
  for (const bool adam : {false, true}) {
    for (int repetition = 0; repetition < 5; ++repetition) {
      const Tensor w = zeros({kMany}), shared = w.detach(), part = w.narrow(0, 0, kMany / 2);
      for (const Tensor& each : {w, shared, part}) each.set_grad(ones(each.sizes()));
      if (adam) {
        Adam({w, shared, part}, {.lr = 1}).step();
      } else {
        SGD({w, shared, part}, {.lr = 1}).step();
      }
      const Tensor rounded = (w * 1000).round();  // Adam's eps
      EXPECT_TRUE(rounded.narrow(0, 0, kMany / 2).equal(full({kMany / 2}, -3000.0)));
      EXPECT_TRUE(rounded.narrow(0, kMany / 2, kMany / 2).equal(full({kMany / 2}, -2000.0)));
    }
  }
}

// The second gradient is the first parameter, which changes before.
TEST(Optimizer, StepsParametersThatAreGradientsOfOthersOneAfterTheOther) {
  constexpr std::int64_t kMany = 300000;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const Tensor w = zeros({kMany}), other = zeros({kMany});
    w.set_grad(ones({kMany}));
    other.set_grad(w.detach());
    SGD({w, other}, {.lr = 1}).step();
    EXPECT_TRUE(other.equal(ones({kMany})));
  }
}

TEST(Optimizer, GradientsInAnotherMemoryOrder) {
  const Tensor plain = randn({2, 3, 4, 5}).requires_grad_();
  const Tensor last = plain.detach().contiguous(kChannelsLast).requires_grad_();
  const Tensor grad = randn({2, 3, 4, 5});
  SGD a({plain}, {.lr = 0.1, .momentum = 0.9}), b({last}, {.lr = 0.1, .momentum = 0.9});
  for (int t = 0; t < 2; ++t) {
    plain.set_grad(grad.contiguous(kChannelsLast));
    last.set_grad(grad);
    a.step();
    b.step();
  }
  EXPECT_TRUE(last.is_contiguous(kChannelsLast));
  EXPECT_EQ(plain.to_vector<float>(), last.to_vector<float>());
}

TEST(Optimizer, StepsAreWritesThatBackwardNotices) {
  const Tensor p = ones({3}).requires_grad_();
  SGD optimizer({p}, {.lr = 0.1});
  const Tensor loss = (p * p).sum();
  p.set_grad(ones({3}));
  optimizer.step();
  EXPECT_THROW(loss.backward(), AutogradError);
}

// 0.9 of the least number is rounded to itself, so that it would stay for ever, and make each step
// that follows slow.
TEST(Optimizer, MomentsWithoutGradientsEndAtZero) {
  const double least = std::numeric_limits<float>::denorm_min();
  for (const auto& [dtype, subnormal] :
       {std::pair(kFloat32, least),
        std::pair(kFloat64, std::numeric_limits<double>::denorm_min())}) {
    const Tensor p = ones({100}, dtype).requires_grad_(), q = ones({100}, dtype).requires_grad_();
    SGD sgd({p}, {.lr = 0.1, .momentum = 0.9});
    Adam adam({q}, {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.9});
    for (int step = 0; step < 7200; ++step) {
      for (const Tensor& one : {p, q}) one.set_grad(full({100}, step == 0 ? 1 : 0, dtype));
      sgd.step();
      adam.step();
    }
    const StateDict of_sgd = sgd.state_dict(), of_adam = adam.state_dict();
    const Tensor velocity = of_sgd.tensor("state.0.momentum_buffer");
    for (const Tensor& moment :
         {velocity, of_adam.tensor("state.0.exp_avg"), of_adam.tensor("state.0.exp_avg_sq")}) {
      EXPECT_TRUE(equal(moment, zeros({100}, dtype)));
    }
    // What is subnormal from the beginning counts as 0.
    p.set_grad(full({100}, subnormal, dtype));
    sgd.step();
    EXPECT_TRUE(equal(velocity, zeros({100}, dtype)));
  }
  // In steps only.
  EXPECT_EQ((full({100}, least) + 0).sum().item(), 100 * least);
}

// Squares of these gradients are subnormal, but with so small an eps their root is what the mean is
// divided by.
TEST(Adam, SubnormalSquaresCountWhereEpsIsSmall) {
  for (const double eps : {0.0, 1e-30, 1e-20, 1e-16, 1e-12, 1e-8}) {
    for (const double gradient : {1e-19, 1e-18, 3e-18, 1e-17}) {
      const auto change = [&](DType dtype) {
        const Tensor p = zeros({20}, dtype).requires_grad_();
        Adam adam({p}, {.lr = 0.1, .eps = eps});
        for (int step = 0; step < 10; ++step) {
          p.set_grad(full({20}, gradient, dtype));
          adam.step();
        }
        return p[3].item();
      };
      const double exact = change(kFloat64);
      EXPECT_NEAR(change(kFloat32) / exact, 1, gradient < 1e-18 ? 0.03 : 1e-3)
          << eps << ' ' << gradient;
    }
  }
}

TEST(Optimizer, ZeroGrad) {
  const Tensor p = ones({2}).requires_grad_();
  SGD optimizer({p});
  (p * 3).sum().backward();
  optimizer.zero_grad(false);
  EXPECT_EQ(p.grad().to_vector<double>(), (std::vector<double>{0, 0}));
  optimizer.zero_grad();
  EXPECT_FALSE(p.grad().defined());
  optimizer.step();
  EXPECT_EQ(p.to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST(Optimizer, GroupsHaveTheirOwnOptions) {
  const Tensor p = ones({1}).requires_grad_(), q = ones({1}).requires_grad_();
  SGD optimizer({{{p}, {.lr = 0.5}}, {{q}, {.lr = 0.25}}});
  p.set_grad(ones({1}));
  q.set_grad(ones({1}));
  optimizer.step();
  EXPECT_EQ(p.item(), 0.5);
  EXPECT_EQ(q.item(), 0.75);
  optimizer.set_lr(1, 0);
  optimizer.step();
  EXPECT_EQ(q.item(), 0.75);
  EXPECT_EQ(optimizer.parameters().size(), 2u);
  EXPECT_THROW(optimizer.lr(2), IndexError);
}

template <class Optimizer, class Options>
void expect_exact_resume(Options options) {
  const std::vector<Tensor> a = many_parameters(), b = many_parameters();
  auto step = [](Optimizer& optimizer, const std::vector<Tensor>& params, int t) {
    Generator generator(static_cast<std::uint64_t>(t));
    for (const Tensor& param : params) param.set_grad(randn(param.sizes(), {}, &generator));
    optimizer.step();
  };
  Optimizer first(a, options), second(b, {.lr = 9});
  for (int t = 0; t < 3; ++t) step(first, a, t);
  {
    const NoGradGuard no_grad;
    for (std::size_t i = 0; i < a.size(); ++i) b[i].copy_(a[i]);
  }
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.lr(), options.lr);
  for (int t = 3; t < 5; ++t) {
    step(first, a, t);
    step(second, b, t);
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].to_vector<float>(), b[i].to_vector<float>());
  }
}

TEST(Optimizer, ResumesExactly) {
  expect_exact_resume<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9});
  expect_exact_resume<Adam>(AdamOptions{.lr = 0.01, .amsgrad = true});
  expect_exact_resume<AdamW>(AdamWOptions{.lr = 0.01});
}

template <class Optimizer, class Options>
void expect_conversion(Options options, const char* state) {
  nn::Linear model({.in = 2, .out = 1, .bias = false}), exact = nn::clone(model);
  exact.to(kFloat64);
  Optimizer optimizer(model.parameters(), options), reference(exact.parameters(), options);
  for (int t = 1; t <= 4; ++t) {
    if (t == 3) model.to(kFloat64);
    model.weight.set_grad(tensor({0.1 * t, -0.2}, {1, 2}, model.weight.dtype()));
    exact.weight.set_grad(tensor({0.1 * t, -0.2}, {1, 2}, kFloat64));
    optimizer.step();
    reference.step();
  }
  const std::vector<double> expected = exact.weight.to_vector<double>();
  const std::vector<double> values = model.weight.to_vector<double>();
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(values[i], expected[i], 1e-6);
  EXPECT_EQ(optimizer.state_dict().tensor(state).dtype(), kFloat64);
}

TEST(Optimizer, GoesOnInTheDtypeThatTheModelIsConvertedTo) {
  expect_conversion<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9}, "state.0.momentum_buffer");
  expect_conversion<Adam>(AdamOptions{.lr = 0.1, .amsgrad = true}, "state.0.exp_avg_sq");
}

TEST(Optimizer, OptionsMayChange) {
  const Tensor p = ones({1}).requires_grad_(), q = ones({1}).requires_grad_();
  SGD optimizer({{{p}, {.lr = 0.5}}, {{q}, {.lr = 0.5}}});
  p.set_grad(ones({1}));
  q.set_grad(ones({1}));
  optimizer.set_options(1, {.lr = 0.25, .weight_decay = 1});
  optimizer.step();
  EXPECT_EQ(p.item(), 0.5);
  EXPECT_EQ(q.item(), 0.5);  // 1 - 0.25 * (1 + 1)
  EXPECT_THROW(optimizer.set_options(1, {.lr = -1}), ValueError);
  EXPECT_EQ(optimizer.options(1).weight_decay, 1);
  EXPECT_THROW(optimizer.set_options(2, {}), IndexError);
  AdamW adam({p});
  adam.set_options(0, AdamWOptions{.beta2 = 0.9});
  EXPECT_EQ(adam.options().beta2, 0.9);
  EXPECT_EQ(adam.options().weight_decay, 0.01);
  adam.set_options(0, {.lr = 0.5});
  EXPECT_EQ(adam.options().weight_decay, 0.01);  // AdamW's default, not Adam's
  AdamWOptions options = adam.options();
  options.eps = 1;
  adam.set_options(0, options);
  EXPECT_EQ(adam.options().lr, 0.5);
}

TEST(Optimizer, StateHasPyTorchNames) {
  const Tensor p = ones({2}).requires_grad_(), q = ones({2}).requires_grad_();
  Adam optimizer({p, q});
  p.set_grad(ones({2}));
  optimizer.step();
  const StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.integer("state.0.step"), 1);
  EXPECT_EQ(state.tensor("state.0.exp_avg").sizes(), IntList({2}));
  EXPECT_TRUE(state.contains("state.0.exp_avg_sq"));
  EXPECT_FALSE(state.contains("state.0.max_exp_avg_sq"));
  EXPECT_FALSE(state.contains("state.1"));
  EXPECT_EQ(state.number("param_groups.0.beta2"), 0.999);
}

/// Parameters after steps with `on`, one with `off` and more with `on`; with the state saved and
/// loaded after the step with `off`.
template <class Optimizer, class Options>
std::vector<double> switched(Options on, Options off, bool reload) {
  const Tensor p = tensor({1, -2, 0.5}, {3}, kFloat64).requires_grad_();
  Optimizer first({p}, on), second({p}, on);
  const auto step = [&](Optimizer& optimizer, double scale) {
    p.set_grad(tensor({0.1 * scale, -0.2, 0.3 / scale}, {3}, kFloat64));
    optimizer.step();
  };
  step(first, 9);
  step(first, 2);
  first.set_options(0, off);
  step(first, 1);
  if (reload) second.load_state_dict(first.state_dict());
  Optimizer& rest = reload ? second : first;
  rest.set_options(0, on);
  step(rest, 1);
  step(rest, 3);
  return p.to_vector<double>();
}

TEST(Optimizer, StateThatRestsIsSaved) {
  const SGDOptions momentum{.lr = 0.1, .momentum = 0.9}, none{.lr = 0.1};
  EXPECT_EQ(switched<SGD>(momentum, none, true), switched<SGD>(momentum, none, false));
  const AdamOptions amsgrad{.lr = 0.1, .amsgrad = true}, plain{.lr = 0.1};
  EXPECT_EQ(switched<Adam>(amsgrad, plain, true), switched<Adam>(amsgrad, plain, false));
}

TEST(Optimizer, OptionErrorsNameTheOptimizer) {
  const Tensor p = ones({2}).requires_grad_();
  EXPECT_ERROR(ValueError, "AdamW: option eps is -1", AdamW({p}, {.eps = -1}));
  EXPECT_ERROR(ValueError, "AdamW: option beta1 is 1", AdamW({p}, {.beta1 = 1}));
  EXPECT_ERROR(ValueError, "Adam: option beta2 is 2", Adam({p}, {.beta2 = 2}));
  AdamW optimizer({p});
  EXPECT_ERROR(ValueError, "AdamW: option lr is -1", optimizer.set_options(0, {.lr = -1}));
  EXPECT_ERROR(ValueError, "AdamW: option beta1 is 1.5", optimizer.set_momentum(0, 1.5));
  EXPECT_EQ(optimizer.momentum(), 0.9);
  SGD nesterov({p}, {.momentum = 0.9, .nesterov = true});
  EXPECT_ERROR(ValueError, "nesterov needs a momentum above 0", nesterov.set_momentum(0, 0));
}

TEST(Optimizer, ZeroedGradientsLetGoOfTheirGraph) {
  const Tensor x = tensor({1.0, 2}).requires_grad_();
  SGD optimizer({x});
  std::int64_t held = 0;
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad(false);
    const Tensor many = x.expand({1000, 2});
    (many * many).sum().backward({}, false, true);
    EXPECT_TRUE(x.grad().requires_grad());
    expect_values(x.grad(), {2000, 4000});
    if (step <= 1) held = cpu::memory_allocated();
    EXPECT_LE(cpu::memory_allocated(), held) << "step " << step;
  }
  optimizer.zero_grad(false);
  EXPECT_FALSE(x.grad().requires_grad());
  expect_values(x.grad(), {0, 0});
}

TEST(Optimizer, LoadErrorsChangeNothing) {
  const Tensor p = ones({2}).requires_grad_(), q = ones({3}).requires_grad_();
  SGD one({p}, {.lr = 0.1, .momentum = 0.9}), other({q}, {.lr = 0.2}), two({{{p}, {}}, {{q}, {}}});
  p.set_grad(ones({2}));
  one.step();
  EXPECT_THROW(other.load_state_dict(one.state_dict()), ValueError);
  EXPECT_EQ(other.lr(), 0.2);
  EXPECT_THROW(two.load_state_dict(one.state_dict()), ValueError);
  EXPECT_ERROR(ValueError, "saved by SGD", Adam({p}).load_state_dict(one.state_dict()));
  EXPECT_ERROR(ValueError, "no \"type\"", one.load_state_dict(StateDict()));
  {
    Adam adam({p});
    adam.step();
    const StateDict whole = adam.state_dict();
    StateDict part = whole, foreign = whole, wrong = whole;
    part.set("state.0", StateDict());
    part.set("state.0.step", 5);
    EXPECT_ERROR(ValueError, "lacks \"exp_avg\"", adam.load_state_dict(part));
    foreign.set("state.7.step", 3);
    EXPECT_ERROR(ValueError, "belongs to other ones", adam.load_state_dict(foreign));
    wrong.set("param_groups.0.initial_lr", std::nan(""));
    EXPECT_ERROR(ValueError, "initial_lr", adam.load_state_dict(wrong));
    EXPECT_EQ(adam.state_dict().integer("state.0.step"), 1);
  }
  StateDict bad = one.state_dict();
  bad.set("param_groups.0.lr", -1.0);
  EXPECT_THROW(one.load_state_dict(bad), ValueError);
  EXPECT_EQ(one.lr(), 0.1);
}

TEST(Optimizer, ArgumentErrors) {
  const Tensor p = ones({2}).requires_grad_();
  EXPECT_ERROR(ValueError, "the list of parameters is empty; pass module.parameters()",
               SGD(std::vector<Tensor>{}));
  EXPECT_THROW(SGD({p, p}), ValueError);
  EXPECT_ERROR(ValueError,
               "SGD: parameter 0 of size [2] is the result of a computation; only leaves can be "
               "trained, make it one with detach().requires_grad_()",
               SGD({p * 2}));
  EXPECT_THROW(SGD({zeros({2}, kInt64)}), DTypeError);
  EXPECT_THROW(SGD({p}, {.lr = -1}), ValueError);
  EXPECT_THROW(SGD({p}, {.lr = NAN}), ValueError);
  EXPECT_THROW(SGD({p}, {.lr = INFINITY}), ValueError);
  EXPECT_THROW(SGD({p}, {.dampening = NAN}), ValueError);
  EXPECT_THROW(SGD({p}, {.weight_decay = INFINITY}), ValueError);
  EXPECT_THROW(SGD({p}, {.lr = 1, .nesterov = true}), ValueError);
  EXPECT_THROW(Adam({p}, {.lr = INFINITY}), ValueError);
  EXPECT_THROW(Adam({p}, {.beta1 = 1}), ValueError);
  EXPECT_THROW(AdamW({p}, {.eps = -1}), ValueError);
  SGD optimizer({p});
  EXPECT_THROW(optimizer.set_lr(0, NAN), ValueError);
  EXPECT_THROW(optimizer.add_param_group({p}, {}), ValueError);
  const Tensor gaps = zeros({4, 4}).permute({1, 0})[0].detach().requires_grad_();
  SGD strided({gaps});
  gaps.set_grad(ones({4}));
  EXPECT_THROW(strided.step(), ShapeError);
}

/// Three steps; before each one tries another without memory for the state of `b`.
template <class Optimizer, class Options>
std::vector<double> train_large(Options options, bool fail) {
  const std::int64_t many = 4 << 20;
  const Tensor a = ones({3}).requires_grad_(), b = ones({many}).requires_grad_();
  Optimizer optimizer({a, b}, options);
  for (int step = 1; step <= 3; ++step) {
    a.set_grad(full({3}, step, kFloat32));
    b.set_grad(full({many}, 0.5));
    if (fail && step == 1) {
      const RestoreMemoryCap cap;
      set_host_memory_cap(cpu::memory_reserved() + (1 << 20));
      for (int attempt = 0; attempt < 2; ++attempt) {
        EXPECT_ERROR(OutOfMemory, "no room", optimizer.step());
      }
    }
    optimizer.step();
  }
  std::vector<double> values = a.to_vector<double>();
  values.push_back(b.detach()[many - 1].item());
  return values;
}

TEST(Optimizer, AStepThatFailedHasNotHappened) {
  const SGDOptions sgd = {.lr = 0.1, .momentum = 0.9, .dampening = 0.5};
  EXPECT_EQ(train_large<SGD>(sgd, true), train_large<SGD>(sgd, false));
  EXPECT_EQ(train_large<Adam>(AdamOptions{}, true), train_large<Adam>(AdamOptions{}, false));
}

}  // namespace
}  // namespace facula::optim
