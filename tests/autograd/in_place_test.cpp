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

TEST(InPlace, CopiesBroadcastAndConvert) {
  const Tensor x = leaf({1, 2}), y = zeros({3, 2}, {kFloat64});
  y.copy_(x);
  expect_values(y * 1, {1, 2, 1, 2, 1, 2});
  (y * arange(6).view({3, 2})).sum().backward();
  EXPECT_EQ(x.grad().dtype(), kFloat32);
  expect_values(x.grad(), {0 + 2 + 4, 1 + 3 + 5});

  const Tensor half = zeros({2, 2}, {kFloat16});
  half[1] = x;
  expect_values(half.to(kFloat32), {0, 0, 1, 2});
  (half.to(kFloat32) * 2).sum().backward();
  expect_values(x.grad(), {6 + 2, 9 + 2});
}

TEST(InPlace, CopiesWithinATensor) {
  const Tensor x = leaf({1, 2, 3}), y = x * 1, first = y.narrow(0, 0, 2);
  first.copy_(y.narrow(0, 1, 2));
  expect_values(y * 1, {2, 3, 3});
  (y * tensor({1.0, 10, 100})).sum().backward();
  expect_values(x.grad(), {0, 1, 110});

  // A part that is broadcast has the address of the whole.
  const Tensor rows = (x * 1).expand({2, 3}) + tensor({0.0, 10}).unsqueeze(1);
  rows.copy_(rows.narrow(0, 0, 1));
  expect_values(rows, {1, 2, 3, 1, 2, 3});
  expect_values(autograd::grad({rows.sum()}, {x})[0], {2, 2, 2});
  const Tensor line = tensor({4.0, 5});
  line.copy_(line.narrow(0, 0, 1));
  expect_values(line, {4, 4});

  // A copy is not what it is copied from.
  const Tensor source = x * 1, copy = zeros({3});
  copy.copy_(source);
  copy.retain_grad();
  source.retain_grad();
  (source * 2 + copy * 3).sum().backward();
  expect_values(copy.grad(), {3, 3, 3});
  expect_values(source.grad(), {5, 5, 5});
}

TEST(InPlace, ChangingANeededInputIsAnError) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor h = x + 1;
  const Tensor y = (h * w).sum();
  h.add_(1);
  EXPECT_ERROR(AutogradError, "backward through mul: input 0 of size [2] was changed in place",
               y.backward());
  // The changed tensor's own history needs what it was.
  const Tensor z = x * 2;
  z.add_(z * w);
  EXPECT_ERROR(AutogradError, "backward through mul: input 0 of size [2] was changed in place",
               z.sum().backward());
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

TEST(InPlace, MakesNoCircles) {
  cpu::empty_cache();
  const std::int64_t before = cpu::memory_allocated();
  for (int i = 0; i < 10; ++i) {
    const Tensor x = rand({1 << 16}, {kFloat32, kCPU, true}),
                 w = rand({1 << 16}, {kFloat32, kCPU, true});
    const Tensor y = x * 2;
    y.mul_(w);
    y.mul_(y);
    y.add_((y * w).sin());
    y.mul_(w);
    const Tensor rows = zeros({4, 1 << 14});
    rows[0] = (rows * w.view({4, 1 << 14}))[1];
    rows[1] = (rows * w.view({4, 1 << 14}))[0];
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

TEST(InPlaceVariants, RefuseLeavesBeforeAnythingIsWrittenAndReachWhatTheyAreViewsOf) {
  const Tensor other = tensor({1.0, 2, 3});
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const Tensor x = leaf({1, 2, 3});
    EXPECT_ERROR(AutogradError, std::string(variant.name) + ": a leaf", variant.in_place(x, other));
    expect_values(x, {1, 2, 3});
    const Tensor y = (x * 2).reshape({1, 3});
    variant.in_place(y.view({3}), other);
    const Tensor expected = variant.functional(x * 2, other);
    expect_equal(y.view({3}), expected);
    expect_equal(autograd::grad({y.sum()}, {x})[0], autograd::grad({expected.sum()}, {x})[0]);
  }
}

TEST(InPlaceVariants, NameThemselves) {
  EXPECT_ERROR(ShapeError, "masked_fill_: elements of size [2, 3] cannot be broadcast",
               zeros({3}).masked_fill_(ones({2, 3}, kBool), 1));
  EXPECT_ERROR(DTypeError, "dtype float32, expected bool", zeros({3}).masked_fill_(ones({3}), 1));
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
