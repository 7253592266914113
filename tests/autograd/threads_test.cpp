#include <facula/autograd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/problems.h"

namespace facula {
namespace {

using Tensors = std::vector<Tensor>;

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

TEST(Threads, BackwardThroughACommonPart) {
  const Tensor weight = full({16}, 2.0).requires_grad_();
  Tensor trunk = weight;
  for (int i = 0; i < 2000; ++i) trunk = (trunk * 1.0).sin() + trunk * 0.5;
  const std::vector<Tensor> heads = {trunk.sum(), (trunk * 3).sin().sum(), (trunk * trunk).sum(),
                                     (trunk * 2 + trunk.cos()).sum()};
  std::vector<std::vector<float>> expected;
  for (const Tensor& head : heads) {
    expected.push_back(
        autograd::grad({head}, {weight}, {.retain_graph = true})[0].to_vector<float>());
  }
  on_threads([&](int i) {
    for (int round = 0; round < 5; ++round) {
      const Tensor gradient = autograd::grad({heads[i]}, {weight}, {.retain_graph = true})[0];
      EXPECT_EQ(gradient.to_vector<float>(), expected[i]);
    }
  });
}

// The first pass that wants a value of the segments runs them again, beside those of other threads.
TEST(Threads, BackwardThroughACommonCheckpoint) {
  const Tensor weight = rand({64}).requires_grad_();
  const auto wave = [](const Tensors& in) { return Tensors{(in[0] * 3).sin().tanh()}; };
  const auto segment = [&](const Tensors& in) {
    return autograd::checkpoint(wave, autograd::checkpoint(wave, {in[0].cos()}));
  };
  const Tensor expected = autograd::grad({segment({weight})[0].sum()}, {weight})[0];
  for (int round = 0; round < kRounds; ++round) {
    const Tensor trunk = autograd::checkpoint(segment, {weight})[0];
    on_threads([&](int i) {
      const Tensor head = (trunk * (i + 1.0)).sum();
      const Tensor gradient = autograd::grad({head}, {weight}, {.retain_graph = true})[0];
      EXPECT_TRUE(allclose(gradient, expected * (i + 1.0)));
    });
  }
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

// The sum takes the memory of x if the other thread is done with it by then.
TEST(Threads, WhatOthersHaveGivenUpMayBeReused) {
  for (int round = 0; round < kRounds; ++round) {
    Tensor x = ones({1000});
    std::thread other([copy = x]() mutable {
      EXPECT_EQ(copy.sum().item<float>(), 1000);
      copy = Tensor();
    });
    if (round % 2) std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    const Tensor y = std::move(x) + 1;
    other.join();
    EXPECT_EQ(y.sum().item<float>(), 2000);
  }
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

TEST(Threads, PassesMayMeetInLeaves) {
  constexpr int kPasses = (kSanitized ? 2 : 20) * kRounds;
  const Tensor weight = randn({8, 8}).requires_grad_(), total = zeros({}).requires_grad_();
  on_threads([&](int thread) {
    const Tensor x = full({8, 8}, 0.1 * (thread + 1)).requires_grad_();
    const auto gradients = [&] {
      Tensor y = x;
      for (int layer = 0; layer <= thread; ++layer) y = tanh(matmul(y, weight));
      return autograd::grad({y.sum()}, {weight, x});
    };
    const std::vector<Tensor> expected = gradients();
    for (int pass = 0; pass < kPasses; ++pass) {
      const std::vector<Tensor> again = gradients();
      ASSERT_TRUE(equal(again[0], expected[0]) && equal(again[1], expected[1]));
      (total * 1).backward();
    }
  });
  EXPECT_EQ(total.grad().item<double>(), kThreads * kPasses);
}

TEST(Threads, AreVerboseFromTheirFirstCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not asked yet
  const auto add_on_a_thread = [] {
    setenv("FACULA_VERBOSE", "1", 1);
    std::thread([] { ones({2}) + zeros({2}); }).join();
    std::thread([] { neg(zeros({2})); }).join();
    std::exit(0);
  };
  EXPECT_EXIT(add_on_a_thread(), ::testing::ExitedWithCode(0), "add float32.*\n.*neg float32");
}

// A backward pass in one thread meets leaves whose last handles another thread gives up.
TEST(Threads, LeavesMayGoDuringBackward) {
  for (int round = 0; round < kRounds; ++round) {
    Tensor leaf = ones({100}).requires_grad_();
    int calls = 0;
    autograd::register_post_accumulate_grad_hook(
        leaf, [&](const Tensor& itself) { calls += itself.grad().defined() ? 1 : 0; });
    const Tensor sum = (leaf + 1.0).sum();
    std::thread other([&] { sum.backward(); });
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    leaf = Tensor();
    other.join();
    EXPECT_LE(calls, 1);
  }
}

}  // namespace
}  // namespace facula
