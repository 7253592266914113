// Training gives the same bits whatever the number of threads.
#include <gtest/gtest.h>

#include <functional>

#include <facula/generator.h>
#include <facula/models.h>
#include <facula/nn/loss.h>
#include <facula/optim.h>
#include <facula/parallel.h>

#include "tests/support/problems.h"

namespace facula {
namespace {

/// All numbers of a model after 20 steps, 2 under the sanitizers.
std::vector<float> train(const std::function<nn::AnyModule()>& make, IntList sizes, int threads) {
  set_num_threads(threads);
  manual_seed(11);
  nn::AnyModule model = make();
  optim::SGD optimizer(model->parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4});
  const nn::CrossEntropyLoss criterion;
  for (int step = 0; step < (kSanitized ? 2 : 20); ++step) {
    const Tensor input = randn(sizes).to(kChannelsLast);
    const Tensor target = randint(0, 10, {sizes[0]});
    optimizer.zero_grad();
    criterion(model(input), target).backward();
    optimizer.step();
  }
  std::vector<float> values;
  const StateDict state = model->state_dict();
  for (const auto& [name, value] : state.flat()) {
    for (const float x : value->get_if<Tensor>()->to_vector<float>()) values.push_back(x);
  }
  return values;
}

void expect_same_bits(const std::function<nn::AnyModule()>& make, IntList sizes) {
  const int before = get_num_threads();
  std::vector<float> expected;
  for (const int threads : thread_counts()) {
    const std::vector<float> weights = train(make, sizes, threads);
    ASSERT_GT(weights.size(), 10000u);
    if (expected.empty()) expected = weights;
    // Not EXPECT_EQ on the vectors: it would print millions of numbers. NaN counts as a difference.
    EXPECT_TRUE(weights == expected) << threads << " threads";
  }
  set_num_threads(before);
}

TEST(SameBits, Net) {
  expect_same_bits([] { return nn::AnyModule(models::Net()); }, {32, 3, 32, 32});
}

TEST(SameBits, SmallResNet) {
  expect_same_bits(
      [] {
        return nn::AnyModule(models::ResNet({1, 1, 1, 1}, {.num_classes = 10, .cifar_stem = true}));
      },
      {4, 3, 16, 16});
}

}  // namespace
}  // namespace facula
