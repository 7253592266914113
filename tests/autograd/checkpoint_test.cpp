#include <facula/autograd.h>
#include <facula/generator.h>
#include <facula/memory.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/problems.h"

namespace facula {
namespace {

using Tensors = std::vector<Tensor>;

/// Some layers that save inputs, outputs and masks.
Tensors layers(const Tensors& in, const Tensor& weight) {
  Tensor h = in[0];
  for (int i = 0; i < 3; ++i) h = dropout((h * weight).tanh(), 0.5, true);
  return {h};
}

Tensor direct(const Tensor& x, const Tensor& weight) { return layers({x}, weight)[0]; }

Tensor checkpointed(const Tensor& x, const Tensor& weight) {
  return autograd::checkpoint([weight](const Tensors& in) { return layers(in, weight); }, {x})[0];
}

struct Result {
  Tensor value, x, weight;
  std::uint64_t random_position;
};

template <class F>
Result run(F function, bool input_needs_grad) {
  manual_seed(5);
  const Tensor x = rand({64}).requires_grad_(input_needs_grad);
  const Tensor weight = rand({64}).requires_grad_();
  const Tensor y = function(x * 1, weight);
  const std::uint64_t position = default_generator().offset();
  (y * y).sum().backward();
  EXPECT_EQ(default_generator().offset(), position) << "backward used random numbers";
  return {y.detach(), x.grad(), weight.grad(), position};
}

TEST(Checkpoint, GivesEqualResultsWithDropout) {
  for (bool input_needs_grad : {true, false}) {
    const Result a = run(direct, input_needs_grad), b = run(checkpointed, input_needs_grad);
    expect_equal(a.value, b.value);
    expect_equal(a.weight, b.weight);
    if (input_needs_grad) expect_equal(a.x, b.x);
    EXPECT_EQ(a.random_position, b.random_position);
  }
}

TEST(Checkpoint, NestedSegments) {
  const auto nested = [](const Tensor& x, const Tensor& weight) {
    return autograd::checkpoint(
        [&](const Tensors& in) {
          return Tensors{checkpointed(checkpointed(in[0] * 2, weight), weight) * weight};
        },
        {x})[0];
  };
  const auto plain = [](const Tensor& x, const Tensor& weight) {
    return direct(direct(x * 2, weight), weight) * weight;
  };
  const Result a = run(plain, true), b = run(nested, true);
  expect_equal(a.value, b.value);
  expect_equal(a.x, b.x);
  expect_equal(a.weight, b.weight);
}

TEST(Checkpoint, GradOfChosenTensors) {
  manual_seed(1);
  const Tensor x = rand({8}).requires_grad_(), weight = rand({8}).requires_grad_();
  const Tensor loss = checkpointed(x, weight).sum();
  const Tensor only = autograd::grad({loss}, {weight})[0];
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
  manual_seed(1);
  const Tensor x2 = rand({8}).requires_grad_(), weight2 = rand({8}).requires_grad_();
  expect_equal(only, autograd::grad({direct(x2, weight2).sum()}, {weight2})[0]);
}

TEST(Checkpoint, HigherDerivatives) {
  const Tensor x = leaf({0.1, 0.2, 0.3}, kFloat64), w = leaf({1.5, -0.5, 0.7}, kFloat64);
  const auto function = [](const Tensors& in) {
    return autograd::checkpoint(
        [](const Tensors& inner) {
          const Tensor h = (inner[0] * inner[1]).tanh();
          return Tensors{h * h * inner[1]};
        },
        {in[0] * 1, in[1]});
  };
  EXPECT_EQ(autograd::gradcheck(function, {x, w}, {.second_order = true}), "");
}

TEST(Checkpoint, BackwardTwice) {
  const Tensor x = leaf({1, 2});
  const Tensor y =
      autograd::checkpoint([](const Tensors& in) { return Tensors{in[0] * in[0]}; }, {x * 1})[0]
          .sum();
  y.backward({}, true);
  y.backward();
  expect_values(x.grad(), {4, 8});
  EXPECT_ERROR(AutogradError, "retain_graph", y.backward());
}

TEST(Checkpoint, KeepsLessMemory) {
  const auto held = [](bool save_memory) {
    const Tensor x = rand({1 << 18}).requires_grad_();
    const auto segment = [](const Tensors& in) {
      Tensor h = in[0];
      for (int i = 0; i < 8; ++i) h = h.tanh();
      return Tensors{h};
    };
    const std::int64_t before = cpu::memory_allocated();
    const Tensor y = save_memory ? autograd::checkpoint(segment, {x})[0] : segment({x})[0];
    const std::int64_t bytes = cpu::memory_allocated() - before;
    y.sum().backward();
    return bytes;
  };
  const std::int64_t megabyte = 1 << 20;
  EXPECT_GE(held(false), 8 * megabyte);
  EXPECT_LE(held(true), 2 * megabyte);
}

TEST(Checkpoint, FreesRecomputedValuesDuringBackward) {
  const Tensor x = rand({1 << 16}).requires_grad_();
  const Tensor y = autograd::checkpoint(
      [](const Tensors& in) { return Tensors{in[0].tanh().tanh().tanh()}; }, {x})[0];
  const Tensor loss = y.sum();
  const std::int64_t before = cpu::memory_allocated();
  loss.backward();
  EXPECT_LE(cpu::memory_allocated() - before, 3 << 17) << "only x.grad() is new";
}

/// Bytes that backward through nested segments needs beyond what the graph held, and that it leaves
/// while the graph lives.
TEST(Checkpoint, NestedSegmentsFreeTheirInputsDuringBackward) {
  const Tensor x = rand({1 << 18}).requires_grad_();
  const auto inner = [](const Tensors& in) { return Tensors{in[0].tanh().tanh().tanh()}; };
  const auto outer = [&](const Tensors& in) {
    Tensor h = in[0];
    for (int i = 0; i < 8; ++i) h = autograd::checkpoint(inner, {h})[0];
    return Tensors{h};
  };
  Tensor h = x;
  for (int i = 0; i < 8; ++i) h = autograd::checkpoint(outer, {h})[0];
  const Tensor loss = h.sum();
  h = Tensor();
  const std::int64_t megabyte = 1 << 20, before = cpu::memory_allocated();
  cpu::reset_peak_memory_stats();
  loss.backward();
  EXPECT_LE(cpu::max_memory_allocated() - before, 16 * megabyte)
      << "of 8 + 3 values, and gradients";
  EXPECT_LE(cpu::memory_allocated(), before - 6 * megabyte) << "inputs of segments go";
}

TEST(Checkpoint, ValuesChangedInTheSegmentAreAnError) {
  const auto changes_exp = [](const Tensors& in) {
    Tensor e = exp(in[0]);
    const Tensor square = e * e;
    e.add_(1);
    return Tensors{square + e};
  };
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(AutogradError, "changed in place", changes_exp({x})[0].sum().backward());
  EXPECT_ERROR(AutogradError, "its checkpointed segment was changed in place",
               autograd::checkpoint(changes_exp, {x})[0].sum().backward());
  const auto changes_input = [](const Tensors& in) {
    Tensor h = in[0] * 2;
    const Tensor y =
        autograd::checkpoint([](const Tensors& inner) { return Tensors{exp(inner[0])}; }, {h})[0];
    h.add_(1);
    return Tensors{y + h};
  };
  EXPECT_ERROR(AutogradError, "changed in place",
               autograd::checkpoint(changes_input, {x})[0].sum().backward());
}

TEST(Checkpoint, InputsOf16Bits) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = leaf({1, 2});
    const auto inner = [](const Tensors& in) { return Tensors{in[0].to(kFloat64) * 3}; };
    const auto outer = [&](const Tensors& in) {
      const Tensor h = (in[0].to(kFloat64) * in[0].to(kFloat64)).to(dtype);
      return autograd::checkpoint(inner, {h});
    };
    autograd::checkpoint(outer, {x.to(dtype)})[0].sum().backward();
    expect_values(x.grad(), {6, 12});
  }
}

TEST(Checkpoint, ChangedInputsAreAnError) {
  const Tensor x = leaf({1, 2}), w = tensor({3.0, 4});
  const Tensor y = autograd::checkpoint(
                       [](const Tensors& in) { return Tensors{(in[0] * in[1]).tanh()}; }, {x, w})[0]
                       .sum();
  w.add_(1);
  EXPECT_ERROR(AutogradError, "checkpoint: input 1", y.backward());
}

TEST(Checkpoint, ASegmentThatChangesIsAnError) {
  const Tensor x = leaf({1, 2});
  int calls = 0;
  const auto y = autograd::checkpoint(
                     [&](const Tensors& in) {
                       return Tensors{++calls == 1 ? in[0].tanh() : in[0].tanh().tanh()};
                     },
                     {x})[0]
                     .sum();
  EXPECT_ERROR(AutogradError, "must compute the same", y.backward());
}

TEST(Checkpoint, NeedsASegment) {
  EXPECT_ERROR(ValueError, "checkpoint: the segment is empty",
               autograd::checkpoint(nullptr, {leaf({1})}));
}

TEST(Checkpoint, RunsPlainlyWithoutGrad) {
  NoGradGuard no_grad;
  int calls = 0;
  const auto y = autograd::checkpoint(
      [&](const Tensors& in) { return ++calls, Tensors{in[0].tanh()}; }, {leaf({1})})[0];
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(calls, 1);
}

/// Draws from the default generator on another thread until it ends.
class OtherDraws {
 public:
  OtherDraws()
      : thread_([this] {
          while (!done_) {
            seen_.push_back(randint(0, std::int64_t{1} << 62, {1}).item<std::int64_t>());
          }
        }) {}
  std::vector<std::int64_t> end() {
    done_ = true;
    thread_.join();
    return std::move(seen_);
  }

 private:
  std::atomic<bool> done_ = false;
  std::vector<std::int64_t> seen_;
  std::thread thread_;
};

TEST(Checkpoint, OtherThreadsMayDrawMeanwhile) {
  OtherDraws others;
  for (int step = 0; step < (kSanitized ? 30 : 300); ++step) {
    const Tensor x = ones({64}).requires_grad_();
    const Tensor y = autograd::checkpoint(
        [](const Tensors& in) { return Tensors{dropout(in[0].exp().log(), 0.5, true) * in[0]}; },
        {x})[0];
    y.sum().backward();
    // d(x^2 * mask)/dx at 1
    EXPECT_TRUE(allclose(x.grad(), y.detach() * 2)) << step;
  }
  std::vector<std::int64_t> drawn = others.end();
  std::sort(drawn.begin(), drawn.end());
  EXPECT_EQ(std::adjacent_find(drawn.begin(), drawn.end()), drawn.end()) << "a number came twice";
}

TEST(Checkpoint, RandomNumbersOfAGeneratorComeAgain) {
  Generator generator(3);
  const Tensor x = ones({64}).requires_grad_();
  const Tensor y = autograd::checkpoint(
      [&](const Tensors& in) { return Tensors{in[0] * rand({64}, {}, &generator) * in[0]}; },
      {x})[0];
  const std::uint64_t position = generator.offset();
  y.sum().backward();
  expect_values(x.grad(), (y.detach() * 2).to_vector<double>());
  EXPECT_EQ(generator.offset(), position);
}

TEST(Checkpoint, MoreRandomNumbersTheSecondTimeAreAnError) {
  const Tensor x = leaf({1, 2});
  int calls = 0;
  const Tensor y = autograd::checkpoint(
      [&](const Tensors& in) {
        if (++calls == 2) rand({1});
        return Tensors{in[0].tanh() * in[0]};
      },
      {x})[0];
  EXPECT_ERROR(AutogradError, "other random numbers", y.sum().backward());
}

// The first backward pass wants values of a segment that has not come to its end.
TEST(Checkpoint, BackwardInsideASegment) {
  const auto segment = [](const Tensors& in) {
    const Tensor a = in[0] * dropout(ones({3}, kFloat64), 0.5, true);
    const Tensor first = autograd::grad({(a * a * a).sum()}, {in[0]}, {.create_graph = true})[0];
    const Tensor noise = rand({3}, kFloat64);
    const Tensor second =
        autograd::grad({(first * first).sum()}, {in[0]}, {.create_graph = true})[0];
    return Tensors{(second * in[0]).tanh() * noise};
  };
  const auto gradient = [&](auto run) {
    manual_seed(11);
    const Tensor x = leaf({0.1, 0.2, 0.3}, kFloat64);
    run(Tensors{x})[0].sum().backward();
    return x.grad();
  };
  expect_values(gradient([&](const Tensors& in) { return autograd::checkpoint(segment, in); }),
                gradient(segment).to_vector<double>(), 1e-12);
}

}  // namespace
}  // namespace facula
