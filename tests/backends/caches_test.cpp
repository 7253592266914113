// Loops that ask for memory ahead, or store past the caches, where these are far away: no bit of a
// result depends on it.
#include "backends/cpu/caches.h"

#include <facula/optim/optimizer.h>

#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

/// In all tests of the backends the caches hold little, so that what lies beyond them is small,
/// too.
class SmallCaches : public testing::Environment {
 public:
  void SetUp() override { cpu::most_cached_bytes(4 << 20); }
};
[[maybe_unused]] const auto* const small_caches =
    testing::AddGlobalTestEnvironment(new SmallCaches);

/// Elements beyond all caches, near and far, with a rest after the last line.
std::int64_t beyond_caches() { return cpu::most_cached_bytes() / 4 + 37; }

TEST(Caches, ElementwiseOpsHaveTheSameBits) {
  const Tensor x = randn({beyond_caches()}), y = randn({beyond_caches()});
  expect_same_bits_with_any_caches(
      [&] {
        return Results{exp(x), x + y, x < y, x.clone().mul_(3), mse_loss(x, y), l1_loss(x, y)};
      },
      "of elements");
}

TEST(Caches, BytesOfManyElementsHaveTheSameBits) {
  const std::int64_t n = cpu::most_cached_bytes() / 2 + 37;
  const Tensor x = rand({n}), y = rand({n});
  expect_same_bits_with_any_caches([&] { return Results{x < y, logical_and(x, y)}; }, "of bytes");
}

TEST(Caches, BatchNormHasTheSameBits) {
  const std::int64_t rows = beyond_caches() / 48 + 1;
  const auto images = [&] { return randn({1, 48, rows, 1}).contiguous(kChannelsLast); };
  const Tensor x = images(), residual = images(), grad = images();
  const Tensor weight = randn({48}), bias = randn({48});
  const auto [mean, inverse, variance] = batch_norm_stats(x);
  expect_same_bits_with_any_caches(
      [&, mean = mean, inverse = inverse] {
        const auto [plain, plain_weight, plain_bias] =
            batch_norm_backward(grad, x, weight, mean, inverse);
        const auto [relu, relu_weight, relu_bias] =
            batch_norm_relu_backward(grad, x, weight, bias, mean, inverse);
        return Results{batch_norm_apply(x, mean, inverse, weight, bias),
                       batch_norm_apply(x, mean, inverse, weight, bias, residual, true),
                       plain,
                       plain_weight,
                       relu,
                       relu_bias};
      },
      "batch norm");
}

/// The parameter after two steps, with the same gradient twice.
template <class Optimizer, class Options>
Tensor after_steps(const Tensor& start, const Tensor& grad, const Options& options) {
  Tensor param = start.clone().requires_grad_();
  Optimizer optimizer({param}, options);
  for (int step = 0; step < 2; ++step) {
    param.set_grad(grad);
    optimizer.step();
  }
  return param.detach();
}

TEST(Caches, OptimizersHaveTheSameBits) {
  for (DType dtype : {kFloat32, kFloat64}) {
    const Tensor param = randn({beyond_caches()}).to(dtype);
    const Tensor grad = randn({beyond_caches()}).to(dtype);
    expect_same_bits_with_any_caches(
        [&] {
          return Results{
              after_steps<optim::SGD>(param, grad, optim::SGDOptions{.lr = 0.1}),
              after_steps<optim::SGD>(
                  param, grad, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
              after_steps<optim::Adam>(param, grad,
                                       optim::AdamOptions{.lr = 0.1, .weight_decay = 0.1}),
              after_steps<optim::Adam>(param, grad, optim::AdamOptions{.lr = 0.1, .amsgrad = true}),
          };
        },
        name_of(dtype));
  }
}

}  // namespace
}  // namespace facula
