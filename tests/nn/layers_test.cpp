#include <facula/nn/layers.h>

#include <gtest/gtest.h>

#include <cmath>

#include <facula/autograd.h>
#include <facula/error.h>
#include <facula/nn/functional.h>
#include <facula/nn/init.h>
#include <facula/nn/loss.h>
#include <facula/nn/utils.h>

#include "tests/support/expect.h"

namespace facula::nn {
namespace {

struct Moments {
  double mean, std, low, high;
};

Moments moments(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  Moments m{0, 0, HUGE_VAL, -HUGE_VAL};
  for (double x : values) {
    m.mean += x / static_cast<double>(values.size());
    m.low = std::fmin(m.low, x);
    m.high = std::fmax(m.high, x);
  }
  for (double x : values) m.std += (x - m.mean) * (x - m.mean);
  m.std = std::sqrt(m.std / static_cast<double>(values.size()));
  return m;
}

TEST(Functional, HasTheNamesOfPyTorch) {
  const Tensor x = ones({2, 3}), index = zeros({2}, kInt64);
  EXPECT_EQ(functional::pad(x, {1, 1}).sizes(), IntList({2, 5}));
  EXPECT_EQ(functional::one_hot(index, 4).sizes(), IntList({2, 4}));
  EXPECT_EQ(functional::elu(x).sizes(), IntList({2, 3}));
  EXPECT_EQ(functional::huber_loss(x, x).item(), 0);
  EXPECT_EQ(functional::smooth_l1_loss(x, x + 2).item(), 1.5);
}

TEST(Layers, Shapes) {
  EXPECT_EQ(Linear({.in = 4, .out = 2})(randn({3, 5, 4})).sizes(), IntList({3, 5, 2}));
  EXPECT_EQ(
      Conv2d({.in = 4, .out = 6, .kernel = {3, 5}, .stride = 2, .padding = {1, 0}, .groups = 2})(
          randn({2, 4, 9, 9}))
          .sizes(),
      IntList({2, 6, 5, 3}));
  const Tensor image = randn({2, 3, 8, 8});
  EXPECT_EQ(MaxPool2d({.kernel = 2})(image).sizes(), IntList({2, 3, 4, 4}));
  EXPECT_EQ(MaxPool2d({.kernel = 3, .stride = 2, .padding = 1})(image).sizes(),
            IntList({2, 3, 4, 4}));
  EXPECT_EQ(AvgPool2d({.kernel = 2, .stride = 1})(image).sizes(), IntList({2, 3, 7, 7}));
  EXPECT_EQ(AdaptiveAvgPool2d()(image).sizes(), IntList({2, 3, 1, 1}));
  EXPECT_EQ(Flatten()(image).sizes(), IntList({2, 192}));
  EXPECT_EQ(Flatten({.start_dim = 2})(image).sizes(), IntList({2, 3, 64}));
  EXPECT_TRUE(Identity()(image).is_same(image));
}

TEST(Layers, LinearWithoutBiasIsAMatrixProduct) {
  Linear fc({.in = 2, .out = 2, .bias = false});
  EXPECT_EQ(fc.parameters().size(), 1u);
  fc.weight = tensor({1.0, 2, 3, 4}, {2, 2});
  EXPECT_EQ(fc(tensor({1.0, 10}, {1, 2})).to_vector<double>(), (std::vector<double>{21, 43}));
}

TEST(Layers, DefaultInitialisationIsUniformWithinTheInverseRootOfTheFanIn) {
  const Linear fc({.in = 100, .out = 300});
  const Moments weight = moments(fc.weight), bias = moments(fc.bias);
  EXPECT_LE(weight.high, 0.1);
  EXPECT_GT(weight.high, 0.0999);
  EXPECT_LT(weight.low, -0.0999);
  EXPECT_NEAR(weight.std, 0.1 / std::sqrt(3), 1e-3);
  EXPECT_LE(bias.high, 0.1);
  EXPECT_GT(bias.high, 0.095);
  const Conv2d conv({.in = 8, .out = 64, .kernel = 5, .groups = 2});
  EXPECT_LE(moments(conv.weight).high, 0.1);
  EXPECT_GT(moments(conv.weight).high, 0.0995);
}

TEST(Layers, SeededInitialisationIsReproducible) {
  manual_seed(5);
  const Linear a({.in = 3, .out = 4});
  manual_seed(5);
  const Linear b({.in = 3, .out = 4});
  EXPECT_EQ(a.weight.to_vector<float>(), b.weight.to_vector<float>());
  EXPECT_EQ(a.bias.to_vector<float>(), b.bias.to_vector<float>());
}

TEST(Layers, OptionErrorsNameLayerAndOption) {
  EXPECT_THROW(Linear({.in = 0, .out = 1}), ValueError);
  EXPECT_THROW(Conv2d({.in = 3, .out = 4}), ValueError);
  EXPECT_THROW(Conv2d({.in = 3, .out = 4, .kernel = 3, .groups = 2}), ValueError);
  EXPECT_THROW(Conv2d({.in = 3, .out = 4, .kernel = 3, .padding = -1}), ValueError);
  EXPECT_THROW(MaxPool2d({.kernel = 2, .padding = 2}), ValueError);
  EXPECT_THROW(AvgPool2d({.kernel = 3, .padding = 2}), ValueError);
  EXPECT_THROW(Dropout({.p = 1.5}), ValueError);
  EXPECT_THROW(Hardtanh({.min_val = 1, .max_val = 1}), ValueError);
  EXPECT_THROW(GELU({.approximate = "best"}), ValueError);
  EXPECT_THROW(BatchNorm2d({.features = 3})(randn({2, 3})), ShapeError);
  EXPECT_THROW(BatchNorm1d({.features = 3})(randn({2, 3, 4, 4})), ShapeError);
}

TEST(Layers, BatchNormNamesItsFeaturesWhereTheInputHasOthers) {
  EXPECT_ERROR(ShapeError,
               "BatchNorm2d: an input of size [2, 4, 8, 8] has 4 channels, option features is 3; "
               "construct the layer with features = 4",
               BatchNorm2d({.features = 3})(randn({2, 4, 8, 8})));
  EXPECT_ERROR(ShapeError, "BatchNorm1d: an input of size [2, 4] has 4 channels",
               BatchNorm1d({.features = 3, .track_running_stats = false})(randn({2, 4})));
}

TEST(Layers, BatchNormTrainsOnNoEmptyBatches) {
  BatchNorm2d norm({.features = 2});
  EXPECT_ERROR(ValueError,
               "BatchNorm2d: an input of size [0, 2, 4, 4] has no elements to train on; leave out "
               "empty batches, or call eval() first",
               norm(zeros({0, 2, 4, 4})));
  EXPECT_ERROR(ValueError, "[3, 2, 0, 4] has no elements", norm(zeros({3, 2, 0, 4})));
  EXPECT_ERROR(ValueError, "BatchNorm1d: an input of size [0, 2] has no elements",
               BatchNorm1d({.features = 2})(zeros({0, 2})));
  EXPECT_ERROR(ShapeError, "one value per channel", norm(zeros({1, 2, 1, 1})));
  EXPECT_ERROR(ValueError, "BatchNorm2d: the input is an undefined tensor", norm(Tensor()));
  EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 0);
  norm.eval();
  EXPECT_EQ(norm(zeros({0, 2, 4, 4})).sizes(), IntList({0, 2, 4, 4}));
}

TEST(Layers, BatchNormUsesBatchThenRunningStatistics) {
  BatchNorm2d norm({.features = 2});
  const Tensor x = randn({4, 2, 3, 3}) * 3 + 1;
  const Tensor y = norm(x);
  EXPECT_NEAR(y.mean().item(), 0, 1e-5);
  EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 1);
  EXPECT_NE(norm.running_mean.to_vector<float>()[0], 0);
  norm.eval();
  const std::vector<float> mean = norm.running_mean.to_vector<float>();
  const Tensor z = norm(x);
  EXPECT_EQ(norm.running_mean.to_vector<float>(), mean);
  EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 1);
  const double expected = (x.to_vector<double>()[0] - mean[0]) /
                          std::sqrt(norm.running_var.to_vector<double>()[0] + 1e-5);
  EXPECT_NEAR(z.to_vector<double>()[0], expected, 1e-5);
  norm.reset_running_stats();
  EXPECT_EQ(norm.running_var.to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST(Layers, BatchNormWithoutMomentumAveragesAllBatches) {
  BatchNorm1d norm({.features = 1, .momentum = std::nullopt});
  norm(tensor({1.0, 3}, {2, 1}));
  norm(tensor({5.0, 7}, {2, 1}));
  EXPECT_NEAR(norm.running_mean.item(), 4, 1e-6);
}

/// The variance itself is averaged, as in PyTorch, not what the addition of eps leaves of it. Large
/// results wait for their reader.
TEST(Layers, BatchNormWithoutMomentumTrainsOnTheNullDevice) {
  BatchNorm2d norm({.features = 3, .momentum = std::nullopt});
  norm.to(kNull);
  EXPECT_EQ(norm(empty({2, 3, 4, 4}, kNull)).sizes(), IntList({2, 3, 4, 4}));
}

TEST(Layers, BatchNormKeepsSmallVariances) {
  for (const std::int64_t plane : {1, 40}) {
    BatchNorm2d norm({.features = 3, .momentum = 1.0});
    const Tensor scale = tensor({0, 1e-5, 1e-3}, {3, 1, 1}), shift = tensor({0.3, 0, 0}, {3, 1, 1});
    const Tensor x = randn({20, 3, plane, plane}) * scale + shift;
    norm(x);
    const std::vector<double> expected = var(x.to(kFloat64), {0, 2, 3}).to_vector<double>();
    const std::vector<double> running = norm.running_var.to_vector<double>();
    EXPECT_LT(running[0], 1e-14);
    for (const std::size_t c : {1, 2}) EXPECT_NEAR(running[c] / expected[c], 1, 1e-5) << c;
  }
}

TEST(Layers, DropoutScalesExactlyToTheDtype) {
  for (const double p : {0.1, 0.3, 0.9}) {
    const Tensor y = dropout(ones({200}, kFloat64), p, true);
    EXPECT_EQ(amax(y).item(), 1 / (1 - p));
    EXPECT_EQ(amax(dropout(ones({200}), p, true)).item<float>(), static_cast<float>(1 / (1 - p)));
  }
}

TEST(Layers, DropoutActsInTrainingOnly) {
  Dropout dropout({.p = 0.25});
  const Tensor x = ones({10000});
  const std::vector<double> values = dropout(x).to_vector<double>();
  int zero_count = 0;
  for (double value : values) {
    zero_count += value == 0;
    EXPECT_TRUE(value == 0 || std::fabs(value - 4.0 / 3) < 1e-6);
  }
  EXPECT_NEAR(zero_count, 2500, 200);
  dropout.eval();
  EXPECT_TRUE(dropout(x).is_same(x));
}

TEST(Layers, ActivationsComputeWhatTheyAreNamedAfter) {
  const double x = -0.7, phi = 0.5 * std::erfc(0.7 / std::sqrt(2));
  const Tensor input = tensor(std::vector<double>{x}, {1}, kFloat64);
  EXPECT_EQ(ReLU({.inplace = true})(input).item(), 0);
  EXPECT_EQ(input.item(), x);
  const ReLU6 relu6({.inplace = true});
  EXPECT_EQ(relu6(input).item(), 0);
  EXPECT_EQ(relu6(input + 7).item(), 6);
  EXPECT_EQ(relu6(input + 2.2).item(), x + 2.2);
  EXPECT_NEAR(LeakyReLU({.negative_slope = 0.2})(input).item(), 0.2 * x, 1e-12);
  EXPECT_NEAR(GELU()(input).item(), x * phi, 1e-9);
  EXPECT_NEAR(GELU({.approximate = "tanh"})(input).item(), x * phi, 1e-3);
  for (const double large : {-1e4, -1e30, -3e38, -HUGE_VAL}) {
    EXPECT_NEAR(GELU({.approximate = "tanh"})(full({1}, large)).item(), 0, 1e-30) << large;
  }
  EXPECT_NEAR(SiLU()(input).item(), x / (1 + std::exp(-x)), 1e-12);
  EXPECT_NEAR(ELU()(input).item(), std::expm1(x), 1e-12);
  EXPECT_NEAR(ELU({.alpha = 0.3})(input).item(), 0.3 * std::expm1(x), 1e-12);
  EXPECT_NEAR(Mish()(input).item(), x * std::tanh(std::log1p(std::exp(x))), 1e-12);
  EXPECT_NEAR(Hardswish()(input).item(), x * (x + 3) / 6, 1e-12);
  EXPECT_EQ(Hardtanh()(input - 1).item(), -1);
  EXPECT_EQ(Hardtanh({.min_val = -3, .max_val = -0.8})(input).item(), -0.8);
  EXPECT_NEAR(Softplus()(input).item(), std::log1p(std::exp(x)), 1e-12);
  EXPECT_NEAR(Softplus({.beta = 2})(input).item(), std::log1p(std::exp(2 * x)) / 2, 1e-12);
  EXPECT_EQ(Softplus({.threshold = -1})(input).item(), x);
  EXPECT_NEAR(Sigmoid()(input).item(), 1 / (1 + std::exp(-x)), 1e-12);
  EXPECT_NEAR(Tanh()(input).item(), std::tanh(x), 1e-12);
  const Tensor row = tensor({0, 1}, {1, 2}, kFloat64);
  EXPECT_NEAR(Softmax({.dim = 1})(row)[0][1].item(), std::exp(1) / (1 + std::exp(1)), 1e-12);
  EXPECT_NEAR(LogSoftmax({.dim = 1})(row)[0][0].item(), -std::log(1 + std::exp(1)), 1e-12);
}

// Expected values: PyTorch 1.13.1,
//   x = torch.tensor([[1., -1., 2.], [.5, 0., -2.]], dtype=torch.float64); t = torch.tensor([2, 0])
//   torch.nn.CrossEntropyLoss(weight=torch.tensor([1., 2., 3.]), label_smoothing=.1)(x, t), ...
TEST(Losses, EqualPyTorch) {
  const Tensor x = tensor({1, -1, 2, 0.5, 0, -2}, {2, 3}, kFloat64);
  const Tensor target = tensor({2, 0}, {2}, kInt64);
  const Tensor weight = tensor({1, 2, 3}, {3}, kFloat64);
  const Tensor y = tensor({0, 1, 1, 0, 1, 0.25}, {2, 3}, kFloat64);
  EXPECT_NEAR(CrossEntropyLoss()(x, target).item(), 0.436460636474, 1e-9);
  EXPECT_NEAR(CrossEntropyLoss({.weight = weight, .label_smoothing = 0.1})(x, target).item(),
              0.526275514273, 1e-9);
  EXPECT_NEAR(CrossEntropyLoss({.ignore_index = 2, .reduction = "sum"})(x, target).item(),
              0.52390905618, 1e-9);
  EXPECT_NEAR(NLLLoss({.weight = weight})(LogSoftmax()(x), target).item(), 0.392736426621, 1e-9);
  EXPECT_NEAR(MSELoss()(x, y).item(), 2.05208333333, 1e-9);
  EXPECT_NEAR(L1Loss({.reduction = "sum"})(x, y).item(), 7.75, 1e-9);
  EXPECT_NEAR(SmoothL1Loss()(x, y).item(), 0.8125, 1e-9);
  EXPECT_NEAR(SmoothL1Loss({.reduction = "sum", .beta = 2.5})(x, y).item(), 2.4625, 1e-9);
  EXPECT_NEAR(HuberLoss({.reduction = "sum", .delta = 1.5})(x, y).item(), 5.75, 1e-9);
  EXPECT_NEAR(BCEWithLogitsLoss({.pos_weight = weight})(x, y).item(), 1.39522207626, 1e-9);
  EXPECT_EQ(MSELoss({.reduction = "none"})(x, y).sizes(), x.sizes());
  EXPECT_THROW(MSELoss({.reduction = "median"}), ValueError);
  EXPECT_THROW(SmoothL1Loss({.beta = -1}), ValueError);
  EXPECT_THROW(HuberLoss({.delta = 0}), ValueError);
  EXPECT_THROW(CrossEntropyLoss({.label_smoothing = 2}), ValueError);
}

// Expected values: PyTorch 1.13.1 with x and weight as above, z = torch.stack([x, x * 2 - 1, -x],
// 2).
TEST(Losses, OfClassesAtManyPositionsEqualPyTorch) {
  const Tensor x = tensor({1, -1, 2, 0.5, 0, -2}, {2, 3}, kFloat64);
  const Tensor logits = stack({x, x * 2 - 1, neg(x)}, 2);
  const Tensor log_probs = log_softmax(logits, 1);
  const Tensor target = tensor({2, 0, -100, 1, 1, 0}, {2, 3}, kInt64);
  const Tensor weight = tensor({1, 2, 3}, {3}, kFloat64);
  for (const auto& [reduction, expected] :
       {std::pair("mean", 1.1730054029898611), std::pair("sum", 10.55704862690875)}) {
    const NLLLoss nll({.weight = weight, .reduction = reduction});
    EXPECT_NEAR(nll(log_probs, target).item(), expected, 1e-9) << reduction;
    const CrossEntropyLoss cross_entropy({.weight = weight, .reduction = reduction});
    EXPECT_NEAR(cross_entropy(logits, target).item(), expected, 1e-9) << reduction;
  }
  const Tensor single = log_probs[0].permute({1, 0})[0], label = tensor(2, kInt64);
  EXPECT_NEAR(NLLLoss({.weight = weight})(single, label).item(), 0.34901221676818645, 1e-9);
}

TEST(Init, Distributions) {
  const Tensor t = empty({400, 50});
  EXPECT_NEAR(moments(init::uniform_(t, -1, 3)).mean, 1, 0.05);
  EXPECT_LT(moments(t).high, 3);
  EXPECT_NEAR(moments(init::normal_(t, 2, 0.5)).std, 0.5, 0.02);
  EXPECT_NEAR(moments(init::kaiming_normal_(t, {.mode = init::FanMode::fan_out,
                                                .nonlinearity = init::Nonlinearity::relu}))
                  .std,
              std::sqrt(2.0 / 400), 2e-3);
  EXPECT_NEAR(moments(init::kaiming_uniform_(t)).high, std::sqrt(6.0 / 50), 2e-3);
  EXPECT_NEAR(moments(init::xavier_normal_(t)).std, std::sqrt(2.0 / 450), 2e-3);
  EXPECT_NEAR(moments(init::xavier_uniform_(t, 2)).high, 2 * std::sqrt(6.0 / 450), 2e-3);
  const Moments cut = moments(init::trunc_normal_(t, 0, 1, -1, 2));
  EXPECT_GE(cut.low, -1);
  EXPECT_LE(cut.high, 2);
  EXPECT_LT(cut.low, -0.99);
  // Mean and deviation of the truncated normal distribution: scipy.stats.truncnorm(-1, 2).stats().
  EXPECT_NEAR(cut.mean, 0.2296, 0.02);
  EXPECT_NEAR(cut.std, 0.7211, 0.02);
  // Far tails mirror each other. The mean is scipy.stats.truncnorm(8.5, 9.5).mean().
  const Moments above = moments(init::trunc_normal_(t, 0, 1, 8.5, 9.5));
  const Moments below = moments(init::trunc_normal_(t, 0, 1, -9.5, -8.5));
  EXPECT_NEAR(above.mean, 8.6145, 0.01);
  EXPECT_NEAR(below.mean, -8.6145, 0.01);
  EXPECT_EQ(moments(init::constant_(t, 4)).high, 4);
  EXPECT_THROW(init::kaiming_normal_(empty({3})), ShapeError);
}

TEST(Init, WritesParametersWithoutRecording) {
  Linear fc({.in = 2, .out = 2});
  init::ones_(fc.weight);
  EXPECT_TRUE(fc.weight.is_leaf());
  EXPECT_EQ(fc.weight.to_vector<double>(), std::vector<double>(4, 1));
}

TEST(Init, OrthogonalRowsOrColumns) {
  for (const auto& [rows, columns] : {std::pair{3, 8}, std::pair{8, 3}, std::pair{5, 5}}) {
    const Tensor t = empty({rows, columns}, kFloat64);
    init::orthogonal_(t, 2);
    const std::vector<double> m = t.to_vector<double>();
    const int count = std::min(rows, columns);
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < count; ++j) {
        double dot = 0;
        for (int k = 0; k < std::max(rows, columns); ++k) {
          dot += rows <= columns ? m[i * columns + k] * m[j * columns + k]
                                 : m[k * columns + i] * m[k * columns + j];
        }
        EXPECT_NEAR(dot, i == j ? 4 : 0, 1e-12);
      }
    }
  }
}

TEST(Utils, ClipsTheNormOfAllGradients) {
  const Tensor a = zeros({2}).requires_grad_(), b = zeros({1}).requires_grad_();
  const Tensor unused = zeros({3}).requires_grad_();
  a.set_grad(tensor({3.0, 0}));
  b.set_grad(tensor({4.}, {1}));
  EXPECT_NEAR(utils::clip_grad_norm_({a, b, unused}, 1), 5, 1e-6);
  EXPECT_NEAR(a.grad()[0].item(), 3 / (5 + 1e-6), 1e-6);
  EXPECT_NEAR(utils::clip_grad_norm_({a, b}, 100), 1, 1e-6);
  EXPECT_NEAR(utils::clip_grad_norm_({a, b}, 100, INFINITY), 0.8, 1e-6);
  EXPECT_NEAR(utils::clip_grad_norm_({a, b}, 100, 1), 1.4, 1e-6);
  utils::clip_grad_value_({a, b}, 0.7);
  EXPECT_NEAR(b.grad().item(), 0.7, 1e-6);
  EXPECT_NEAR(a.grad()[0].item(), 0.6, 1e-6);
  a.set_grad(tensor({NAN, 0}));
  EXPECT_THROW(utils::clip_grad_norm_({a}, 1, 2, true), ValueError);
  EXPECT_THROW(utils::clip_grad_norm_({a}, 1, INFINITY, true), ValueError);
  EXPECT_THROW(utils::clip_grad_norm_({a, b}, 1, INFINITY, true), ValueError);  // b is finite
  EXPECT_TRUE(std::isnan(utils::clip_grad_norm_({a, b}, 1, INFINITY)));
  EXPECT_TRUE(std::isnan(b.grad().item()));
  EXPECT_THROW(utils::clip_grad_norm_({a}, -1), ValueError);
}

TEST(Layers, NumbersMustBeFinite) {
  EXPECT_ERROR(ValueError, "option eps is inf", BatchNorm2d({.features = 2, .eps = HUGE_VAL}));
  EXPECT_ERROR(DTypeError, "trunc_normal_: a tensor of int64", init::trunc_normal_(arange(4)));
  EXPECT_ERROR(DTypeError, "orthogonal_: a tensor of int64",
               init::orthogonal_(zeros({2, 2}, kInt64)));
  EXPECT_ERROR(ValueError, "padding", MaxPool2d({.kernel = 2, .padding = 1LL << 62}));
  EXPECT_ERROR(ValueError, "a finite mean", init::trunc_normal_(zeros({2}), std::nan(""), 1));
  EXPECT_ERROR(ValueError, "deviation is nan", init::normal_(zeros({2}), 0, std::nan("")));
}

}  // namespace
}  // namespace facula::nn
