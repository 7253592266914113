// Views and the recorded history: what writes into tensors do to their views, and the reverse.
#include <facula/autograd.h>
#include <facula/memory.h>

#include <functional>
#include <random>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/problems.h"

namespace facula {
namespace {

using Tensors = std::vector<Tensor>;

TEST(Views, RowsOfATensorMadeBefore) {
  const Tensor x = leaf({1, 2, 3}), rows = zeros({2, 3});
  rows[0] = x * 2;
  rows[1] = x * x;
  EXPECT_TRUE(rows.requires_grad());
  expect_values(rows, {2, 4, 6, 1, 4, 9});
  (rows * tensor({1.0, 10, 100, 1, 10, 100}, {2, 3})).sum().backward();
  expect_values(x.grad(), {2 + 2, 20 + 40, 200 + 600});
}

TEST(Views, WritesReachTheTensorAndOtherViews) {
  const Tensor x = leaf({1, 2, 3, 4}), w = leaf({5, 6});
  const Tensor y = x * 2, square = y.view({2, 2});
  const Tensor first = square[0], column = square.t()[1], last = y.narrow(0, 3, 1);
  first.mul_(w);
  EXPECT_TRUE(first.is_view());
  expect_values(y, {10, 24, 6, 8});
  // Each is as it should be, whether it was taken before or after, overlaps or not.
  const auto gradients = [&](const Tensor& output) {
    return autograd::grad({output.sum()}, {x, w}, {.retain_graph = true, .allow_unused = true});
  };
  expect_values(gradients(first)[0], {10, 12, 0, 0});
  expect_values(gradients(first)[1], {2, 4});
  expect_values(gradients(column)[0], {0, 12, 0, 2});
  expect_values(gradients(column)[1], {0, 4});
  expect_values(gradients(last)[0], {0, 0, 0, 2});
  expect_values(gradients(square)[0], {10, 12, 2, 2});
  expect_values(gradients(y)[1], {2, 4});
  expect_values(gradients(y[1])[0], {0, 12, 0, 0});
}

TEST(Views, OfATensorThatIsGone) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor square = (x * 1).view({2, 2});
  const Tensor row = square[0], column = square.t()[0];
  row.mul_(x.narrow(0, 2, 2));
  expect_values(square, {3, 8, 3, 4});
  (column.sum() + square[1].sum()).backward();
  expect_values(x.grad(), {3, 0, 1 + 2, 1});
}

TEST(Views, ConstantsCutTheHistoryOfTheirPart) {
  const Tensor x = leaf({1, 2, 3, 4}), y = x * x, before = y[3];
  y.narrow(0, 1, 2).zero_();
  const Tensor other = y[0];
  y[0].fill_(5);
  EXPECT_TRUE(other.requires_grad());
  (y.sum() + other + before).backward();
  expect_values(y, {5, 0, 0, 16});
  expect_values(x.grad(), {0, 0, 0, 16});
}

TEST(Views, InChannelsLast) {
  const Tensor x = rand({2, 3, 2, 4}, kFloat64).requires_grad_();
  const Tensor w = rand({2, 4}, kFloat64).requires_grad_();
  const auto function = [](const Tensors& in) {
    const Tensor y = (in[0] * 2).contiguous(kChannelsLast);
    y.select(1, 1).select(0, 1).mul_(in[1]);
    y.narrow(3, 1, 2).select(2, 1).sub_(in[1][0].narrow(0, 0, 2) * in[1][1][3]);
    EXPECT_TRUE(y.is_contiguous(kChannelsLast));
    return Tensors{y, y.permute({3, 0, 2, 1})[2]};
  };
  EXPECT_EQ(autograd::gradcheck(function, {x, w}, {.second_order = true}), "");
}

/// Writes and reads in a random order, through views of views of a tensor, some taken before.
Tensor random_writes(unsigned seed, const Tensor& x, const Tensor& w) {
  std::mt19937 random(seed);
  const auto draw = [&](int n) { return static_cast<std::int64_t>(random() % n); };
  const auto number = [&] { return w[draw(3)]; };
  const bool transposed = draw(2) == 1;
  Tensors views = {transposed ? (x * 2).t().contiguous().t() : x * 2};
  if (!transposed && draw(3) == 0) views[0] = views[0].view({-1}).view(views[0].sizes());
  Tensor read = (x * 0).sum();
  for (int step = 0; step < 12; ++step) {
    const Tensor t = views[draw(static_cast<int>(views.size()))];
    const std::int64_t dim = t.dim() > 0 ? draw(t.dim()) : 0;
    switch (t.dim() > 0 ? draw(11) : 5 + draw(6)) {
      case 0: views.push_back(t.select(dim, draw(static_cast<int>(t.size(dim))))); break;
      case 1: views.push_back(t.slice(dim, draw(2), 9, 1 + draw(2))); break;
      case 2: views.push_back(t.transpose(0, dim)); break;
      case 3: views.push_back(t.unsqueeze(dim)); break;
      case 4: views.push_back(t.dim() > 1 ? t.diagonal() : t.unbind(0)[0]); break;
      case 5: t.mul_(number()); break;
      case 6: t.copy_((t.clone() * number()).sin()); break;
      case 7: t.add_(number() * number()); break;
      case 8: t.fill_(0.5); break;
      case 9: t.tanh_(); break;
      case 10: read = read + (t.clone().square() * number()).sum(); break;
    }
    if (views.back().numel() == 0) views.pop_back();
  }
  for (const Tensor& view : views) read = read + (view.clone().cos() * number()).sum();
  return read;
}

TEST(Views, RandomWritesHaveTheGradientsOfFiniteDifferences) {
  const Tensor x = (rand({3, 4}, kFloat64) + 0.5).detach().requires_grad_();
  const Tensor w = leaf({0.7, -1.2, 0.4}, kFloat64);
  for (int seed = 0; seed < problems(400); ++seed) {
    SCOPED_TRACE(seed);
    const auto function = [seed](const Tensors& in) {
      return Tensors{random_writes(static_cast<unsigned>(seed), in[0], in[1])};
    };
    ASSERT_EQ(autograd::gradcheck(function, {x, w}), "");
  }
}

TEST(Views, OfLeavesAreNotWritten) {
  const Tensor x = leaf({1, 2, 3, 4}), plain = ones({4});
  EXPECT_ERROR(AutogradError, "add_: a view of a leaf tensor that requires grad", x[0].add_(1));
  EXPECT_ERROR(AutogradError, "copy_: a view of a leaf", x.view({2, 2}).copy_(ones({2, 2})));
  expect_values(x, {1, 2, 3, 4});
  const Tensor own = plain.view({2, 2}).requires_grad_();
  EXPECT_ERROR(AutogradError, "mul_: a leaf tensor that requires grad", own.mul_(2));
  EXPECT_ERROR(AutogradError, "mul_: a view of a leaf tensor", own[0].mul_(2));
  EXPECT_ERROR(AutogradError, "mul_: a view of a leaf tensor", own[0].view({2, 1}).mul_(2));
  plain.mul_(x);
  EXPECT_ERROR(AutogradError, "take the view again", own * 2);
}

TEST(Views, AloneWithTheirElementsAreTensorsOfTheirOwn) {
  const Tensor x = leaf({-1, 2, -3, 4}), w = leaf({1, 2});
  const Tensor flat = (x * 2).view({2, 2}).flatten();
  flat.relu_();
  flat.mul_(x);
  EXPECT_FALSE(flat.is_view());
  const Tensor copied = (x * w.sum()).view({2, 2}).t().reshape({4});  // x0, x2, x1, x3
  copied.add_(flat);
  copied.fill_(1);
  EXPECT_FALSE(copied.requires_grad());
  const Tensor part = (x * 3).narrow(0, 1, 2);
  part.copy_(w * w);
  (flat.sum() + part.sum()).backward();
  expect_values(flat, {0, 8, 0, 32});
  expect_values(x.grad(), {0, 8, 0, 16});
  expect_values(w.grad(), {2, 4});
}

TEST(Views, FollowWhatTheyAreTakenOf) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = x * 2;
  const Tensor square = y.view({2, 2}), row = square[1];
  y.mul_(3);
  expect_values(row * 2, {36, 48});
  square.sum().backward();
  expect_values(x.grad(), {6, 6, 6, 6});

  // Before that had a history, and after it has none any more.
  const Tensor joins = zeros({2}), view = joins.view({1, 2});
  joins.add_(x.narrow(0, 0, 2) * 5);
  EXPECT_TRUE(view.requires_grad());
  (view * 1).sum().backward();
  expect_values(x.grad(), {11, 11, 6, 6});
  joins.zero_();
  EXPECT_FALSE(view.requires_grad());
  expect_values(view * 1, {0, 0});
}

TEST(Views, OfDetachedTensorsFollowThoseAlone) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  const Tensor v = y.detach().view({1, 2}), w = y.view({2, 1});
  y.mul_(3);
  expect_values(v * 2, {12, 24});
  EXPECT_FALSE((v * 2).requires_grad());
  EXPECT_TRUE((w * 2).requires_grad());

  const Tensor z = x * 2, detached = z.detach();
  const Tensor of_detached = detached[0], of_z = z.view({2, 1});
  detached.mul_(x);
  expect_values(autograd::grad({of_detached}, {x}, {.retain_graph = true})[0], {2, 0});
  expect_values(autograd::grad({of_z.sum()}, {x})[0], {2, 2});
  detached[1].mul_(x[0]);
  expect_values(detached, {2, 8});
  expect_values(autograd::grad({detached.sum()}, {x})[0], {2 + 8, 4});
  EXPECT_FALSE(z.detach().requires_grad());
}

TEST(Views, EveryDetachedTensorHasItsOwn) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  const Tensor first = y.detach(), second = y.detach();
  const Tensor of_first = first.view({2, 1}), of_second = second.view({2, 1});
  first.mul_(x);
  expect_values(of_second * 1, {2, 8});
  EXPECT_FALSE((of_second * 1).requires_grad());
  EXPECT_TRUE((of_first * 1).requires_grad());
  const Tensor of_detached = first.detach().view({2, 1});
  second.mul_(x);
  EXPECT_TRUE((of_second * 1).requires_grad());
  expect_values(of_detached * 1, {2, 16});
  EXPECT_FALSE((of_detached * 1).requires_grad());
}

TEST(Views, GoOnWithTheRetainedGradients) {
  const Tensor x = leaf({1, 2}), y = x * 2, v = y[0];
  y.retain_grad();
  v.retain_grad();
  v.mul_(3);
  (y * 5).sum().backward({}, true);
  expect_values(y.grad(), {5, 5});
  expect_values(v.grad(), {5});
  v.backward();
  expect_values(v.grad(), {6});
  expect_values(x.grad(), {30 + 6, 10});
}

TEST(Views, WhereverHistoriesAreAskedFor) {
  const Tensor joins = zeros({2}), early = joins[0], other = joins[1];
  joins.add_(leaf({1, 2}));
  EXPECT_FALSE(early.is_leaf());
  EXPECT_ERROR(AutogradError, "the result of as_strided_copy", early.requires_grad_(false));
  other.requires_grad_();
  EXPECT_FALSE(other.is_leaf());
  int seen = 0;
  autograd::register_hook(joins[0], [&](const Tensor& g) { return ++seen, g; });
  early.retain_grad();
  (early * 3).backward();
  expect_values(early.grad(), {3});
  EXPECT_EQ(seen, 0) << "the hook is that of another view";

  const Tensor x = leaf({1, 2, 3}), y = x * 1, view = y.unsqueeze(0);
  const auto same = [&](autograd::FunctionContext&) { return Tensors{view * 1}; };
  const auto back = [](autograd::FunctionContext&, const Tensors& g) { return g; };
  y.square_();
  view.backward(ones({1, 3}), true);
  expect_values(x.grad(), {2, 4, 6});
  const Tensor result = autograd::apply_function("Same", {view}, same, back)[0];
  expect_values(autograd::grad({result}, {x}, {.grad_outputs = {ones({1, 3})}})[0], {2, 4, 6});
}

TEST(Views, TakenWithoutRecordingAreNotWrittenNorFollow) {
  const Tensor parameter = leaf({1, 2, 3}), inner = parameter * 1;
  for (const Tensor& base : {parameter, inner}) {
    Tensor view, of_view;
    {
      const NoGradGuard no_grad;
      view = base.narrow(0, 0, 2);
      of_view = view[0];
      view.mul_(1);
    }
    EXPECT_ERROR(AutogradError, "mul_: the written tensor is a view that was taken", view.mul_(2));
    EXPECT_ERROR(AutogradError, "a view that was taken under NoGradGuard", of_view.zero_());
    view.detach().mul_(1);
    (view * 2).mul_(2);
  }
  expect_values(parameter, {1, 2, 3});
  Tensor view;
  {
    const NoGradGuard no_grad;
    view = inner[0];
  }
  inner.mul_(2);
  EXPECT_ERROR(AutogradError, "mul: it was given a view", view * 1);
  const NoGradGuard no_grad;
  expect_values(view * 1, {2});
}

TEST(Views, OfViewsWhoseTensorJoinedTheGraphAreTakenWithoutRecording) {
  const Tensor y = zeros({2, 2}), row = y[0];
  y.add_(leaf({1, 2}));
  Tensor element;
  {
    const NoGradGuard no_grad;
    element = row[1];
  }
  EXPECT_ERROR(AutogradError, "a view that was taken under NoGradGuard", element.mul_(2));
}

TEST(Views, OfDetachedPartsWithGapsAreNotWritten) {
  const Tensor x = leaf({1, 2}), gaps = ones({4, 4}).slice(1, 0, 4, 2).detach();
  const Tensor row = gaps[0];
  EXPECT_ERROR(AutogradError, "a tensor with gaps", row.mul_(x));
  expect_values(row, {1, 1});
  gaps.mul_(x);
  EXPECT_ERROR(AutogradError, "mul: it was given a view", row * 1);
}

TEST(Views, OfCustomFunctionsHaveAHistoryThatNobodyElseKnows) {
  const Tensor x = leaf({1, 2}) * 1;
  const auto itself = [&](autograd::FunctionContext&) { return Tensors{x}; };
  const auto back = [](autograd::FunctionContext&, const Tensors& g) { return Tensors{g[0] * 7}; };
  const Tensor y = autograd::apply_function("Itself", {x}, itself, back)[0];
  EXPECT_ERROR(AutogradError,
               "add_: an in-place operation that needs a gradient writes into a view", y.add_(1));
  EXPECT_ERROR(AutogradError, "a custom function's", y[0].zero_());
  x.mul_(2);
  EXPECT_ERROR(AutogradError, "mul: it was given a view", y * 1);
}

TEST(Views, KeepNothingAliveThatNobodyNeeds) {
  cpu::empty_cache();
  const std::int64_t before = cpu::memory_allocated();
  for (int i = 0; i < 10; ++i) {
    const Tensor x = rand({4, 1 << 14}).requires_grad_(), w = rand({1 << 14}).requires_grad_();
    const Tensor y = x * 2;
    for (int row = 1; row < 4; ++row) y[row] = y[row - 1] * w;
    y[0].mul_(y[1]);
    Tensor metric;
    {
      const NoGradGuard no_grad;
      metric = y.view({-1});
    }
  }
  EXPECT_LT(cpu::memory_allocated() - before, 1 << 16);
}

TEST(Views, OfASharedTensorOnManyThreads) {
  const Tensor x = leaf({1, 2, 3, 4});
  for (int round = 0; round < 200; ++round) {
    const Tensor y = x * 2;
    const Tensor view = y.view({2, 2});
    y.mul_(x);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        expect_values(autograd::grad({view.sum()}, {x}, {.retain_graph = true})[0], {4, 8, 12, 16});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Views, ExpandedOnesFollowTheirTensor) {
  const Tensor x = leaf({1, 2}), y = x * 1, rows = y.unsqueeze(1).expand({2, 3});
  y.mul_(2);
  (rows * 1).sum().backward();
  expect_values(x.grad(), {6, 6});
  const Tensor z = x * 1, columns = z.expand({3, 2}).permute({1, 0});
  z.mul_(2);
  const Tensor g = autograd::grad({columns.square().sum()}, {x}, {.create_graph = true})[0];
  expect_values(g, {24, 48});
  expect_values(autograd::grad({g.sum()}, {x})[0], {24, 24});
}

}  // namespace
}  // namespace facula
