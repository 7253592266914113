#include <facula/autograd.h>

#include <thread>
#include <vector>

#include "tests/support/expect.h"

namespace facula {
namespace {

using autograd::HookHandle;

TEST(Hooks, SeeAndReplaceGradients) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  std::vector<double> seen;
  autograd::register_hook(y, [&](const Tensor& gradient) {
    seen = gradient.to_vector<double>();
    return gradient * 10;
  });
  autograd::register_hook(x, [](const Tensor& gradient) { return gradient + 1; });
  (y * 3).sum().backward();
  EXPECT_EQ(seen, (std::vector<double>{3, 3}));
  expect_values(x.grad(), {61, 61});
}

TEST(Hooks, RunOnTheThreadThatCallsBackward) {
  const Tensor x = leaf({1, 2}), y = x * 2;
  std::vector<std::thread::id> threads;
  autograd::register_hook(y, [&](const Tensor& gradient) {
    threads.push_back(std::this_thread::get_id());
    return gradient;
  });
  autograd::register_post_accumulate_grad_hook(
      x, [&](const Tensor&) { threads.push_back(std::this_thread::get_id()); });
  y.sum().backward(Tensor(), true);
  EXPECT_EQ(threads, std::vector(2, std::this_thread::get_id()));
  threads.clear();
  std::thread other([&] {
    y.sum().backward();
    EXPECT_EQ(threads, std::vector(2, std::this_thread::get_id()));
  });
  other.join();
}

TEST(Hooks, SeeTheWholeGradientOnce) {
  const Tensor x = leaf({1});
  int calls = 0;
  autograd::register_hook(x, [&](const Tensor& gradient) {
    ++calls;
    expect_values(gradient, {5});
    return Tensor();
  });
  (x * 2 + x * 3).backward();
  EXPECT_EQ(calls, 1);
}

TEST(Hooks, CanBeRemovedAlsoFromInside) {
  const Tensor x = leaf({1});
  int first = 0, second = 0;
  HookHandle handle, self;
  handle = autograd::register_hook(x, [&](const Tensor&) { return ++first, Tensor(); });
  self = autograd::register_hook(x, [&](const Tensor&) {
    ++second;
    self.remove();
    return Tensor();
  });
  (x * 2).backward();
  handle.remove();
  handle.remove();
  (x * 2).backward();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(Hooks, HandlesOutliveTheTensor) {
  HookHandle handle;
  {
    const Tensor x = leaf({1});
    handle = autograd::register_hook(x, [](const Tensor& g) { return g; });
  }
  handle.remove();
}

TEST(Hooks, StayWithTheValuesTheyWereRegisteredFor) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  std::vector<double> before, after;
  HookHandle first = autograd::register_hook(y, [&](const Tensor& gradient) {
    before = gradient.to_vector<double>();
    return Tensor();
  });
  y.mul_(3);
  autograd::register_hook(y, [&](const Tensor& gradient) {
    after = gradient.to_vector<double>();
    return Tensor();
  });
  y.sum().backward({}, true);
  EXPECT_EQ(before, (std::vector<double>{3, 3}));
  EXPECT_EQ(after, (std::vector<double>{1, 1}));
  before.clear();
  first.remove();
  y.sum().backward();
  EXPECT_TRUE(before.empty());
}

TEST(Hooks, CopiesOfAHandleRemoveTheSameHook) {
  const Tensor x = leaf({1});
  int calls = 0;
  HookHandle handle = autograd::register_hook(x, [&](const Tensor&) { return ++calls, Tensor(); });
  HookHandle copy = handle;
  copy.remove();
  handle.remove();
  (x * 2).backward();
  EXPECT_EQ(calls, 0);
}

TEST(Hooks, ResultsMustFit) {
  const auto refused = [](const Tensor& x, const Tensor& result) {
    HookHandle handle = autograd::register_hook(x, [&](const Tensor&) { return result; });
    (x * 2).sum().backward();
  };
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(ShapeError, "[3], expected [2]; return one of the size",
               refused(leaf({1, 2}), ones({3})));
  EXPECT_ERROR(DTypeError, "returned a float64 gradient of size [2], expected float32",
               refused(leaf({1, 2}), ones({2}, kFloat64)));
  EXPECT_ERROR(DeviceError, "on null, expected cpu", refused(leaf({1, 2}), empty({2}, kNull)));
  EXPECT_ERROR(AutogradError, "does not require grad",
               autograd::register_hook(ones({1}), [](const Tensor& g) { return g; }));
  EXPECT_ERROR(ValueError, "register_hook: the hook is empty", autograd::register_hook(x, nullptr));
  EXPECT_ERROR(ValueError, "register_post_accumulate_grad_hook: the hook is empty",
               autograd::register_post_accumulate_grad_hook(x, nullptr));
}

TEST(Hooks, RunAfterAccumulation) {
  const Tensor x = leaf({1, 2});
  std::vector<std::vector<double>> seen;
  HookHandle handle = autograd::register_post_accumulate_grad_hook(x, [&](const Tensor& parameter) {
    EXPECT_TRUE(parameter.is_same(x));
    seen.push_back(parameter.grad().to_vector<double>());
    if (seen.size() == 2) parameter.set_grad({});
  });
  (x * 2).sum().backward();
  (x * 3 + x).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  autograd::grad({x.sum()}, {x});  // accumulates nothing
  handle.remove();
  x.sum().backward();
  EXPECT_EQ(seen, (std::vector<std::vector<double>>{{2, 2}, {6, 6}}));
  EXPECT_ERROR(AutogradError, "no leaf",
               autograd::register_post_accumulate_grad_hook(x * 2, [](const Tensor&) {}));
}

TEST(GradBuffer, ReceivesGradients) {
  const Tensor x = leaf({1, 2});
  const Tensor bucket = full({6}, 9.0);
  const Tensor buffer = bucket.view({3, 2})[1];
  autograd::set_grad_buffer(x, buffer);
  EXPECT_FALSE(x.grad().defined());
  (x * 2).sum().backward();
  (x * 3).sum().backward();
  EXPECT_TRUE(x.grad().is_same(buffer));
  expect_values(bucket, {9, 9, 5, 5, 9, 9});
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
  (x * 4).sum().backward();
  expect_values(bucket, {9, 9, 4, 4, 9, 9});
}

TEST(GradBuffer, LetsGoOfTheGraph) {
  const Tensor x = leaf({1, 2});
  const Tensor buffer = zeros({2});
  autograd::set_grad_buffer(x, buffer);
  (x * x * x).sum().backward({}, false, true);
  EXPECT_TRUE(x.grad().requires_grad());
  x.set_grad({});
  (x * 5).sum().backward();
  EXPECT_FALSE(x.grad().requires_grad());
  expect_values(buffer, {5, 5});
  const Tensor bucket = zeros({4});
  autograd::set_grad_buffer(x, bucket.slice(0, 1, 3));
  (x * 5).sum().backward({}, false, true);  // a gradient without history fits into a view
  expect_values(bucket, {0, 5, 5, 0});
  EXPECT_ERROR(AutogradError, "gradient buffer", (x * x).sum().backward({}, false, true));
}

TEST(RetainGrad, CanBeSet) {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 2;
  EXPECT_ERROR(AutogradError, "retain_grad", h.set_grad({}));
  h.retain_grad();
  (h * h).sum().backward({}, true, true);
  EXPECT_TRUE(h.grad().requires_grad());
  h.set_grad({});  // which lets go of the graph that h hangs on
  EXPECT_FALSE(h.grad().defined());
  h.set_grad(ones({2}));
  (h * 3).sum().backward();
  expect_values(h.grad(), {4, 4});
}

TEST(GradBuffer, MustFit) {
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(ShapeError, "[3]", autograd::set_grad_buffer(x, ones({3})));
  EXPECT_ERROR(DTypeError, "float64", autograd::set_grad_buffer(x, ones({2}, kFloat64)));
  EXPECT_ERROR(AutogradError, "no leaf", autograd::set_grad_buffer(x * 2, ones({2})));
}

}  // namespace
}  // namespace facula
