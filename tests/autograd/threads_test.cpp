#include <facula/autograd.h>

#include <thread>

#include "tests/support/expect.h"

namespace facula {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 200;

template <class F>
void on_threads(F body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, InferenceOnSharedParameters) {
  const Tensor weight = rand({64, 64}).requires_grad_();
  const Tensor x = rand({64, 64});
  const auto model = [&] { return ((x * weight).tanh() + weight).sum(); };
  const float expected = model().item<float>();
  on_threads([&](int i) {
    for (int round = 0; round < kRounds; ++round) {
      if (i % 2) {
        InferenceMode inference;
        EXPECT_EQ(model().item<float>(), expected);
      } else {
        NoGradGuard no_grad;
        EXPECT_EQ(model().item<float>(), expected);
      }
    }
  });
}

TEST(Threads, BackwardOnSeparateGraphs) {
  const Tensor shared = rand({256});
  on_threads([&](int i) {
    const Tensor weight = full({256}, i + 1.0).requires_grad_();
    for (int round = 0; round < kRounds; ++round) {
      (shared * weight).sum().backward();
      expect_equal(weight.grad(), shared * 1);
      weight.set_grad({});
    }
  });
}

TEST(Threads, GraphsMayMoveToAnotherThread) {
  const Tensor x = rand({1000}).requires_grad_();
  Tensor loss = (x * x).sum();
  std::thread([&] {
    loss.backward();
    loss = Tensor();
  }).join();
  expect_equal(x.grad(), x.detach() * 2);
}

}  // namespace
}  // namespace facula
