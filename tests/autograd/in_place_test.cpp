#include <facula/autograd.h>
#include <facula/memory.h>

#include "tests/support/expect.h"

namespace facula {
namespace {

TEST(InPlace, ContinuesTheHistory) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 3;
  y.add_(1);
  y.mul_(2);
  expect_values(y, {8, 14});
  y.sum().backward();
  expect_values(x.grad(), {6, 6});
}

TEST(InPlace, KeepsOldValuesWhereBackwardNeedsThem) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor y = x * 2;
  y.mul_(w);
  y.sum().backward();
  expect_values(x.grad(), {6, 8});
  expect_values(w.grad(), {2, 4});

  const Tensor z = leaf({3}) * 1;
  const Tensor square = z.detach().requires_grad_() * 1;
  square.mul_(square);
  expect_values(square, {9});
  square.backward();
}

TEST(InPlace, WithItself) {
  const Tensor x = leaf({3});
  const Tensor y = x * 1;
  y.mul_(y);
  y.backward();
  expect_values(x.grad(), {6});
}

TEST(InPlace, BringsATensorIntoTheGraph) {
  const Tensor x = leaf({1, 2});
  const Tensor sum = zeros({2});
  for (int i = 1; i <= 3; ++i) sum.add_(x * i);
  EXPECT_TRUE(sum.requires_grad());
  sum.sum().backward();
  expect_values(x.grad(), {6, 6});
}

TEST(InPlace, CopyTakesOverTheSourcesHistory) {
  const Tensor x = leaf({1, 2});
  const Tensor y = zeros({2, 2});
  y.copy_(x * 2);
  (y * tensor({1.0, 2, 3, 4}, {2, 2})).sum().backward();
  expect_values(x.grad(), {8, 12});
}

TEST(InPlace, ConstantsCutTheHistory) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  y.fill_(5);
  EXPECT_FALSE(y.requires_grad());
  (y * x).sum().backward();
  expect_values(x.grad(), {5, 5});
}

TEST(InPlace, RetainedGradientsAreThoseOfTheNewValues) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  y.retain_grad();
  y.sum().backward({}, true);
  expect_values(y.grad(), {1, 1});
  y.mul_(3);
  expect_values(y.grad(), {1, 1});
  y.add_(x);
  (y * 5).sum().backward();
  expect_values(y.grad(), {6, 6});
  expect_values(x.grad(), {37, 37});
}

TEST(InPlace, OnlyTheWrittenTensorsRetainedGradientMoves) {
  const Tensor x = leaf({1, 2, 3});
  const auto [variance, mean] = var_mean(x);
  variance.retain_grad();
  mean.retain_grad();
  variance.mul_(3);
  (variance * 2 + mean * 4).backward();
  expect_values(variance.grad(), {2});
  expect_values(mean.grad(), {4});
}

TEST(InPlace, LeafIsAnError) {
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(AutogradError, "leaf", x.add_(1));
  EXPECT_ERROR(AutogradError, "leaf", x.fill_(1));
  EXPECT_ERROR(AutogradError, "leaf", x.copy_(ones({2})));
  expect_values(x, {1, 2});
}

TEST(InPlace, ChangingANeededInputIsAnError) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor h = x + 1;
  const Tensor y = (h * w).sum();
  h.add_(1);
  EXPECT_ERROR(AutogradError, "backward through mul: input 0 of size [2] was changed in place",
               y.backward());
}

TEST(InPlace, ChangingANeededOutputIsAnError) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x.tanh();
  y.mul_(2);
  EXPECT_ERROR(AutogradError, "backward through tanh: output 0", y.sum().backward());
}

TEST(InPlace, ChangesThroughViewsCount) {
  const Tensor x = leaf({1, 2}), w = tensor({3.0, 4});
  const Tensor y = (x * w).sum();
  w.view({2, 1}).add_(1);
  EXPECT_ERROR(AutogradError, "changed in place", y.backward());
}

TEST(InPlace, IntoAViewOfAGraphTensorIsAnErrorBeforeAnythingIsWritten) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = x * 2;
  const Tensor v = y.view({2, 2});
  EXPECT_ERROR(AutogradError, "into a view", v.add_(1));
  EXPECT_ERROR(AutogradError, "into a view", v.fill_(0));
  EXPECT_ERROR(AutogradError, "into a view", v.copy_(ones({2, 2})));
  const Tensor plain = zeros({4});
  EXPECT_ERROR(AutogradError, "into a view", plain.view({2, 2}).copy_(v));
  expect_values(y, {2, 4, 6, 8});
  expect_values(plain, {0, 0, 0, 0});
  y.sum().backward();
  expect_values(x.grad(), {2, 2, 2, 2});
}

TEST(InPlace, StaleViewsAreAnError) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = x * 2;
  const Tensor v = y.view({2, 2});
  y.mul_(3);
  EXPECT_ERROR(AutogradError, "take the view again", v * 2);
  EXPECT_ERROR(AutogradError, "take the view again", v.sum());
  y.view({2, 2}).sum().backward();
  expect_values(x.grad(), {6, 6, 6, 6});
}

TEST(InPlace, ViewsTakenBeforeATensorJoinedTheGraphAreStale) {
  const Tensor x = leaf({1, 2});
  const Tensor y = zeros({2});
  const Tensor v = y.view({1, 2});
  y.add_(x);
  EXPECT_ERROR(AutogradError, "take the view again", v * 2);
  NoGradGuard no_grad;
  expect_values(v * 2, {2, 4});
}

TEST(InPlace, MakesNoCircles) {
  cpu::empty_cache();
  const std::int64_t before = cpu::memory_allocated();
  for (int i = 0; i < 10; ++i) {
    const Tensor x = rand({1 << 16}, {kFloat32, kCPU, true}),
                 w = rand({1 << 16}, {kFloat32, kCPU, true});
    const Tensor y = x * 2;
    y.mul_(w);
    y.mul_(y);
  }
  EXPECT_LT(cpu::memory_allocated() - before, 1 << 18);
}

TEST(InPlace, DtypeAndShapeMustFit) {
  const Tensor integers = tensor(3);
  EXPECT_ERROR(DTypeError, "float32 result cannot be written into a int64", integers.mul_(0.5));
  EXPECT_ERROR(ShapeError, "does not fit", ones({2}).add_(ones({2, 2})));
  EXPECT_ERROR(ShapeError, "share one memory place", ones({1}).expand({3}).add_(1));
}

}  // namespace
}  // namespace facula
