#include <facula/autograd.h>
#include <facula/memory.h>

#include <functional>

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

TEST(InPlace, IntoAViewThatAloneHoldsItsElementsContinuesItsHistory) {
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

TEST(InPlace, IntoAViewThatWasStaleWhenItsBaseWentIsAnError) {
  const Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  const Tensor v = y.view({1, 2});
  y.mul_(x);
  y = Tensor();
  EXPECT_ERROR(AutogradError, "take the view again", v.add_(1));
}

TEST(InPlace, DetachedViewsHaveNoHistoryToLose) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  const Tensor v = y.detach().view({1, 2}), w = y.view({2, 1});
  y.mul_(3);
  expect_values(v * 2, {12, 24});
  EXPECT_FALSE((v * 2).requires_grad());
  EXPECT_ERROR(AutogradError, "take the view again", w * 2);

  // A detached tensor that got a history of its own leaves its views behind like any other, and
  // the views of what it was detached from alone.
  const Tensor z = x * 2, detached = z.detach();
  const Tensor of_detached = detached[0], of_z = z.view({2, 1});
  detached.mul_(x);
  EXPECT_ERROR(AutogradError, "take the view again", of_detached * 2);
  expect_values(of_z * 2, {4, 16});
  z.mul_(2);
  EXPECT_ERROR(AutogradError, "take the view again", of_detached * 2);
  EXPECT_ERROR(AutogradError, "take the view again", of_z * 2);
  expect_values(detached[1] * 1, {16});
}

TEST(InPlace, EveryDetachedTensorHasViewsOfItsOwn) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  const Tensor first = y.detach(), second = y.detach();
  const Tensor of_first = first.view({2, 1}), of_second = second.view({2, 1});
  first.mul_(x);
  expect_values(of_second * 1, {2, 8});
  EXPECT_ERROR(AutogradError, "take the view again", of_first * 1);
  const Tensor of_first_again = first.view({2, 1}), of_detached = first.detach().view({2, 1});
  second.mul_(x);
  EXPECT_ERROR(AutogradError, "take the view again", of_second * 1);
  expect_values(of_first_again * 1, {2, 16});
  expect_values(of_detached * 1, {2, 16});
  EXPECT_TRUE((of_first_again * 1).requires_grad());
  EXPECT_FALSE((of_detached * 1).requires_grad());
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

TEST(InPlace, ConstantsIntoStaleViewsAreAnErrorBeforeAnythingIsWritten) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = zeros({4});
  const Tensor v = y.view({2, 2});
  y.add_(x * 2);
  EXPECT_ERROR(AutogradError, "fill_: it was given a view", v.fill_(7));
  EXPECT_ERROR(AutogradError, "zero_: it was given a view", v.zero_());
  EXPECT_ERROR(AutogradError, "copy_: it was given a view", v.copy_(ones({2, 2})));
  EXPECT_ERROR(AutogradError, "relu_: it was given a view", v.relu_());
  EXPECT_ERROR(AutogradError, "uniform_", v.uniform_());
  expect_values(y, {2, 4, 6, 8});
  NoGradGuard no_grad;
  expect_values(v.fill_(7), {7, 7, 7, 7});
}

TEST(InPlace, ViewsAreCurrentAgainOnceTheirTensorHasNoHistory) {
  const Tensor x = leaf({1, 2, 3, 4}), y = zeros({4}), rows = y.view({2, 2});
  for (int step = 0; step < 3; ++step) {
    rows.fill_(step);
    y.add_(x * x);
    EXPECT_ERROR(AutogradError, "take the view again", rows.fill_(step));
    const Tensor recorded = y.view({2, 2});
    sum(y).backward();
    y.zero_();
    EXPECT_ERROR(AutogradError, "take the view again", recorded * 1);
    expect_values(rows * 1, {0, 0, 0, 0});
  }
  expect_values(x.grad(), {6, 12, 18, 24});
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

/// The in-place variants of ops that are not elementwise, beside those ops.
struct Variant {
  const char* name;
  std::function<void(const Tensor& self, const Tensor& other)> in_place;
  std::function<Tensor(const Tensor& self, const Tensor& other)> functional;
};

std::vector<Variant> variants() {
  const Tensor mask = tensor({true, false, true});
  const Tensor index = tensor({2, 0, 1});
  return {
      {"add_", [](const Tensor& x, const Tensor& y) { x.add_(y, 0.5); },
       [](const Tensor& x, const Tensor& y) { return x.add(y, 0.5); }},
      {"sub_", [](const Tensor& x, const Tensor& y) { x.sub_(y, -2); },
       [](const Tensor& x, const Tensor& y) { return x.sub(y, -2); }},
      {"gelu_", [](const Tensor& x, const Tensor&) { x.gelu_(); },
       [](const Tensor& x, const Tensor&) { return x.gelu(); }},
      {"gelu_", [](const Tensor& x, const Tensor&) { x.gelu_("tanh"); },
       [](const Tensor& x, const Tensor&) { return x.gelu("tanh"); }},
      {"masked_fill_", [=](const Tensor& x, const Tensor&) { x.masked_fill_(mask, 7); },
       [=](const Tensor& x, const Tensor&) { return x.masked_fill(mask, 7); }},
      {"scatter_", [=](const Tensor& x, const Tensor& y) { x.scatter_(0, index, y); },
       [=](const Tensor& x, const Tensor& y) { return x.scatter(0, index, y); }},
      {"scatter_add_", [=](const Tensor& x, const Tensor& y) { x.scatter_add_(0, index, y); },
       [=](const Tensor& x, const Tensor& y) { return x.scatter_add(0, index, y); }},
      {"index_add_", [=](const Tensor& x, const Tensor& y) { x.index_add_(0, index, y, 3); },
       [=](const Tensor& x, const Tensor& y) { return x.index_add(0, index, y, 3); }},
  };
}

TEST(InPlaceVariants, GiveTheValuesAndGradientsOfTheirOps) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const Tensor weights = tensor({0.5, -1.0, 2.0});
    Tensor results[2], gradients[2][2];
    for (const bool in_place : {false, true}) {
      const Tensor x = leaf({0.5, -2, 3}), y = leaf({-1, 4, 0.25});
      Tensor result = x * 2;
      const std::uint32_t version = result.version();
      if (in_place) {
        variant.in_place(result, y);
        EXPECT_GT(result.version(), version);
      } else {
        result = variant.functional(result, y);
      }
      (result * weights).sum().backward();
      results[in_place] = result.detach();
      gradients[in_place][0] = x.grad();
      gradients[in_place][1] = y.grad();
    }
    expect_equal(results[1], results[0]);
    expect_equal(gradients[1][0], gradients[0][0]);
    ASSERT_EQ(gradients[1][1].defined(), gradients[0][1].defined());
    if (gradients[0][1].defined()) expect_equal(gradients[1][1], gradients[0][1]);
  }
}

TEST(InPlaceVariants, RefuseLeavesAndViewsBeforeAnythingIsWritten) {
  const Tensor other = tensor({1.0, 2, 3});
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const Tensor x = leaf({1, 2, 3});
    EXPECT_ERROR(AutogradError, std::string(variant.name) + ": a leaf", variant.in_place(x, other));
    expect_values(x, {1, 2, 3});
    const Tensor y = (x * 2).reshape({1, 3});
    const Tensor view = y.view({3});
    EXPECT_ERROR(AutogradError, "into a view", variant.in_place(view, other));
    expect_values(y, {2, 4, 6});
    {
      NoGradGuard no_grad;
      variant.in_place(view, other);
      expect_equal(y.view({3}), variant.functional(x * 2, other));
    }
  }
}

TEST(InPlaceVariants, NameThemselves) {
  EXPECT_ERROR(ShapeError, "masked_fill_: elements of size [2, 3] cannot be broadcast",
               zeros({3}).masked_fill_(ones({2, 3}, kBool), 1));
  EXPECT_ERROR(ShapeError, "copy_: ", zeros({3}).copy_(ones({2})));
  EXPECT_ERROR(ValueError, "add_", Tensor().add_(ones({2}), 2));
  EXPECT_ERROR(ValueError, "gelu_", Tensor().gelu_());
  expect_values(empty({1, 0}).expand({3, 0}).zero_(), {});  // nothing is shared
}

TEST(InPlaceVariants, KeepTheDtype) {
  const Tensor integers = tensor({1, 0, 3});
  EXPECT_ERROR(DTypeError, "add_: alpha is 0.5", integers.add_(integers, 0.5));
  expect_values(integers.add_(integers, 2), {3, 0, 9});
  EXPECT_EQ(integers.logical_not_().dtype(), kInt64);
  expect_values(integers, {0, 1, 0});
  const Tensor mask = tensor({true, false});
  mask.logical_not_();
  EXPECT_EQ(mask.dtype(), kBool);
  expect_values(mask, {0, 1});
  EXPECT_ERROR(ValueError, "gelu_: approximate is \"erf\"", ones({2}).gelu_("erf"));
  EXPECT_ERROR(ShapeError, "share one memory place",
               ones({1}).expand({3}).scatter_(0, tensor({0}), ones({1})));
}

TEST(InPlace, DtypeAndShapeMustFit) {
  const Tensor integers = tensor(3);
  EXPECT_ERROR(DTypeError, "float32 result cannot be written into a int64", integers.mul_(0.5));
  EXPECT_ERROR(ShapeError, "does not fit", ones({2}).add_(ones({2, 2})));
  EXPECT_ERROR(ShapeError, "share one memory place", ones({1}).expand({3}).add_(1));
}

TEST(InPlace, StaleViewsAreAnErrorWhereverTheyGo) {
  const Tensor x = leaf({1, 2, 3}), y = x * 1, view = y.unsqueeze(0);
  y.square_();
  EXPECT_ERROR(AutogradError, "backward: it was given a view", view.backward(ones({1, 3})));
  EXPECT_ERROR(AutogradError, "grad: it was given a view",
               autograd::grad({view}, {x}, {.grad_outputs = {ones({1, 3})}}));
  EXPECT_ERROR(AutogradError, "grad: it was given a view",
               autograd::grad({y.sum()}, {view}, {.allow_unused = true}));
  const auto same = [&](autograd::FunctionContext&) { return std::vector<Tensor>{view * 1}; };
  const auto back = [](autograd::FunctionContext&, const std::vector<Tensor>& g) { return g; };
  EXPECT_ERROR(AutogradError, "Same: it was given a view",
               autograd::apply_function("Same", {view}, same, back));
}

TEST(InPlace, IntoAViewTakenWithoutRecordingIsAnError) {
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
}

TEST(InPlace, NumbersTakeNothingFromAnotherDevice) {
  const Tensor x = tensor(1.0), y = empty({}, kNull);
  const std::uint32_t version = x.version();
  EXPECT_ERROR(DeviceError, "the written tensor is on cpu, another operand on null", x.copy_(y));
  EXPECT_ERROR(DeviceError, "the written tensor is on cpu, another operand on null", x.add_(y));
  EXPECT_EQ(x.version(), version);
  y.copy_(x);
}

}  // namespace
}  // namespace facula
