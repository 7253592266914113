#include <facula/autograd.h>

#include <cmath>

#include "tests/support/expect.h"
#include "tests/support/problems.h"

namespace facula {
namespace {

TEST(Backward, AccumulatesIntoLeaves) {
  const Tensor x = leaf({1, 2, 3}), w = leaf({4, 5, 6});
  (x * w).sum().backward();
  expect_values(x.grad(), {4, 5, 6});
  expect_values(w.grad(), {1, 2, 3});
  (x * w).sum().backward();
  expect_values(x.grad(), {8, 10, 12});
}

TEST(Backward, UsesOneTensorSeveralTimes) {
  const Tensor x = leaf({3});
  const Tensor y = x * x;
  (y * x + y).backward();  // x^3 + x^2
  expect_values(x.grad(), {27 + 6});
}

TEST(Backward, StartsFromGivenGradients) {
  const Tensor x = leaf({1, 2});
  (x * 3).backward(tensor({10.0, 20}));
  expect_values(x.grad(), {30, 60});
}

TEST(Backward, StartsFromSeveralOutputs) {
  const Tensor x = leaf({1, 2});
  autograd::backward({(x * 2).sum(), (x * 3).sum()});
  expect_values(x.grad(), {5, 5});
}

TEST(Backward, SumsOverBroadcastDimensions) {
  const Tensor row = leaf({1, 2, 3});
  const Tensor column = tensor({1.0, 2}, {2, 1}).requires_grad_();
  const Tensor scalar = tensor(2.0).requires_grad_();
  ((row + column) * scalar).sum().backward();
  expect_values(row.grad(), {4, 4, 4});
  expect_values(column.grad(), {6, 6});
  EXPECT_EQ(column.grad().sizes().vec(), (std::vector<std::int64_t>{2, 1}));
  expect_values(scalar.grad(), {21});
  EXPECT_EQ(scalar.grad().dim(), 0);
}

TEST(Backward, ReturnsGradientsInEachInputsDtype) {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4}, kFloat64);
  const Tensor z = x * y;
  EXPECT_EQ(z.dtype(), kFloat64);
  z.sum().backward();
  EXPECT_EQ(x.grad().dtype(), kFloat32);
  EXPECT_EQ(y.grad().dtype(), kFloat64);
  expect_values(x.grad(), {3, 4});
}

TEST(Backward, GoesThroughViews) {
  const Tensor x = tensor({1.0, 2, 3, 4, 5, 6}, {2, 3}).requires_grad_();
  (x.permute({1, 0}).reshape({6}) * tensor({1.0, 2, 3, 4, 5, 6})).sum().backward();
  expect_values(x.grad(), {1, 3, 5, 2, 4, 6});
}

TEST(Backward, GivesGradientsTheLayoutOfTheLeaf) {
  const Tensor x = rand({2, 3, 4, 5}).contiguous(kChannelsLast).requires_grad_();
  (x * x).sum().backward();
  EXPECT_TRUE(x.grad().is_contiguous(kChannelsLast));
}

TEST(Backward, TwiceIsAnErrorUnlessTheGraphIsRetained) {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  y.backward({}, true);
  y.backward();
  expect_values(x.grad(), {8});
  EXPECT_ERROR(AutogradError, "retain_graph", y.backward());
}

TEST(Backward, TwiceIsFineWhereNothingWasSaved) {
  const Tensor x = leaf({2, 3});
  const Tensor y = (x.view({2, 1}) + 1).sum();
  y.backward();
  y.backward();
  expect_values(x.grad(), {2, 2});
}

TEST(Backward, ExplainsWhatItCannotDo) {
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(AutogradError, "more than one element", (x * 2).backward());
  EXPECT_ERROR(AutogradError, "does not require grad", tensor({1.0}).backward());
  EXPECT_ERROR(ShapeError, "[3]", (x * 2).backward(ones({3})));
  EXPECT_ERROR(ValueError, "2 gradients for 1 outputs",
               autograd::backward({x.sum()}, {ones({}), ones({})}));
}

TEST(Backward, SavedTensorsGoAsSoonAsTheyAreUsed) {
  const Tensor x = leaf({1, 2});
  Tensor w = tensor({3.0, 4});
  const Tensor observer = w.detach();
  const Tensor y = (x * w).sum();
  // The graph keeps w: a handle and the node's slot refer to it.
  const Tensor kept = w;
  w = Tensor();
  bool deleted = false;
  float values[2] = {5, 6};
  Tensor z;
  {
    const Tensor blob = from_blob(
        values, {2}, kFloat32, [](void* flag) { *static_cast<bool*>(flag) = true; }, &deleted);
    z = (x * blob).sum();
  }
  EXPECT_FALSE(deleted);
  z.backward();
  EXPECT_TRUE(deleted) << "z still exists, but the graph no longer needs the factor";
}

TEST(Backward, LongChainsNeedNoStack) {
  constexpr int kCalls = kThreadSanitized ? 100'000 : 1'000'000;
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < kCalls; ++i) y = y + 1;
  y.backward();
  expect_values(x.grad(), {1});
  y = Tensor();

  Tensor z = x;
  for (int i = 0; i < kCalls; ++i) z = z * 1.0;
  z = Tensor();  // destroys the chain without a backward pass
}

TEST(Backward, RetainsGradientsOfInnerTensors) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  y.retain_grad();
  EXPECT_FALSE(y.grad().defined());
  (y * y).sum().backward();
  expect_values(y.grad(), {4, 8});
  expect_values(x.grad(), {8, 16});
}

TEST(Backward, SetGradReplaces) {
  const Tensor x = leaf({1, 2});
  x.set_grad(tensor({7.0, 8}));
  (x * 2).sum().backward();
  expect_values(x.grad(), {9, 10});
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_ERROR(ShapeError, "[3]", x.set_grad(ones({3})));
}

TEST(Backward, SetGradChecksWhatItGets) {
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(DTypeError, "set_grad: a int64 gradient for a float32 tensor of size [2]",
               x.set_grad(ones({2}, kInt64)));
  EXPECT_ERROR(DeviceError, "set_grad: a gradient on null", x.set_grad(empty({2}, kNull)));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, AFailedAccumulationLeavesTheGradient) {
  const Tensor x = leaf({1, 2});
  x.set_grad(ones({1}).expand({2}));  // cannot be added to in place
  EXPECT_ERROR(ShapeError, "share one memory", (x * 3).sum().backward());
  expect_values(x.grad(), {1, 1});
  x.set_grad(ones({2}));
  (x * 3).sum().backward();
  expect_values(x.grad(), {4, 4});
}

TEST(Backward, ChecksTheGradientToStartFrom) {
  const Tensor a = ones({2, 2}).requires_grad_();
  const Tensor product = matmul(a, a);
  EXPECT_ERROR(DTypeError, "backward: a float64 gradient for a float32 output of size [2, 2]",
               product.backward(ones({2, 2}, kFloat64)));
  EXPECT_ERROR(ShapeError,
               "backward: a gradient of size [2] for an output of size [2, 2]; pass one of the "
               "output's size",
               product.backward(ones({2})));
  EXPECT_ERROR(DeviceError, "backward: a gradient on null", product.backward(empty({2, 2}, kNull)));
  EXPECT_ERROR(DTypeError, "grad: a int64 gradient",
               autograd::grad({product}, {a}, {.grad_outputs = {ones({2, 2}, kInt64)}}));
  product.backward(ones({2, 2}));
  expect_values(a.grad(), {4, 4, 4, 4});
  EXPECT_ERROR(ShapeError, "for a tensor of size [2, 2]; pass one of the", a.set_grad(ones({2})));
  EXPECT_ERROR(AutogradError, "this one of size [2] is int64; convert it with to(kFloat32)",
               ones({2}, kInt64).requires_grad_());
  EXPECT_ERROR(ValueError, "undefined; give it a value first", Tensor().requires_grad_());
}

TEST(Grad, LeavesGradAlone) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const std::vector<Tensor> gradients = autograd::grad({(x * w).sum()}, {w, x});
  expect_values(gradients[0], {1, 2});
  expect_values(gradients[1], {3, 4});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Grad, OfInnerTensors) {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  const Tensor z = y * y * x;
  const std::vector<Tensor> gradients = autograd::grad({z}, {y, x});
  expect_values(gradients[0], {2 * 4 * 2});
  expect_values(gradients[1], {5 * 16});
}

TEST(Grad, RunsOnlyWhatLiesOnTheWay) {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  const Tensor z = y * 3;
  expect_values(autograd::grad({z}, {y})[0], {3});
  // The pass above ended at y, so the graph behind y is still whole.
  y.backward();
  expect_values(x.grad(), {4});
}

TEST(Grad, FindsTargetsInDeepAndWideGraphs) {
  const Tensor x = leaf({1});
  Tensor h = x, sum = zeros({1});
  for (int i = 0; i < 20000; ++i) {
    h = h + 0;
    sum = sum + h;
  }
  expect_values(autograd::grad({sum}, {x})[0], {20000});
}

TEST(Grad, UnusedInputs) {
  const Tensor x = leaf({1}), unused = leaf({1});
  EXPECT_ERROR(AutogradError, "input 1", autograd::grad({x * 2}, {x, unused}));
  const auto gradients = autograd::grad({x * 2}, {x, unused}, {.allow_unused = true});
  expect_values(gradients[0], {2});
  EXPECT_FALSE(gradients[1].defined());
  EXPECT_ERROR(AutogradError, "does not require grad", autograd::grad({x * 2}, {tensor({1.0})}));
}

TEST(Grad, HigherDerivatives) {
  const Tensor x = leaf({2}, kFloat64);
  const Tensor y = x * x * x;
  const Tensor first = autograd::grad({y}, {x}, {.create_graph = true})[0];
  expect_values(first, {12});
  const Tensor second = autograd::grad({first}, {x}, {.create_graph = true})[0];
  expect_values(second, {12});
  const Tensor third = autograd::grad({second}, {x})[0];
  expect_values(third, {6});
}

TEST(Grad, HigherDerivativesThroughSavedOutputs) {
  const Tensor x = leaf({0.5}, kFloat64);
  const Tensor first = autograd::grad({x.tanh()}, {x}, {.create_graph = true})[0];
  first.backward();
  const double t = std::tanh(0.5);
  expect_values(x.grad(), {-2 * t * (1 - t * t)}, 1e-12);
}

TEST(Grad, CreateGraphInBackward) {
  const Tensor x = leaf({3}, kFloat64);
  (x * x).backward({}, false, true);
  const Tensor penalty = x.grad() * x.grad();  // 4 x^2
  expect_values(autograd::grad({penalty}, {x})[0], {24});
  x.set_grad({});  // the gradient's graph refers to x: cut the circle
}

TEST(Backward, NeverWritesOverGradientsThatSomebodySees) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  y.retain_grad();
  const Tensor z = y.exp();
  Tensor seen;
  autograd::register_hook(z, [&](const Tensor& gradient) { return seen = gradient, Tensor(); });
  const Tensor seed = tensor({1.0, 3});
  (z * 5).backward(seed);
  expect_values(seed, {1, 3});
  expect_values(seen, {5, 15});
  const Tensor expected = z.detach() * tensor({5.0, 15});
  expect_equal(y.grad(), expected);
  expect_equal(x.grad(), expected * 2);
}

TEST(Leaves, RequiresGradRules) {
  EXPECT_ERROR(AutogradError, "int64", tensor(1).requires_grad_());
  const Tensor x = leaf({1});
  const Tensor y = x * 2;
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_TRUE(y.requires_grad());
  EXPECT_ERROR(AutogradError, "detach", y.requires_grad_(false));
  EXPECT_FALSE((x == x).requires_grad());
  x.requires_grad_(false);
  EXPECT_FALSE((x * 2).requires_grad());
  EXPECT_ERROR(AutogradError, "does not require grad", x.retain_grad());
}

TEST(Leaves, DetachSharesElementsOnly) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  const Tensor d = y.detach();
  EXPECT_FALSE(d.requires_grad());
  EXPECT_TRUE(d.is_leaf());
  EXPECT_EQ(d.raw_data(), y.raw_data());
  EXPECT_FALSE((d * 3).requires_grad());
}

TEST(Leaves, MayDieBeforeBackward) {
  Tensor y;
  {
    const Tensor x = leaf({1});
    y = x * x;
  }
  y.backward();
}

TEST(Backward, GradientsOfLeavesAreTheirOwnWithAGraphToo) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor g = ones({2});
  (x + w).backward(g, false, true);
  (x + w).backward(ones({2}));
  EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>({2, 2}));
  EXPECT_EQ(w.grad().to_vector<double>(), std::vector<double>({2, 2}));
  EXPECT_EQ(g.to_vector<double>(), std::vector<double>({1, 1}));
  const Tensor y = leaf({1, 2});
  y.sum().backward({}, false, true);
  y.sum().backward();
  EXPECT_EQ(y.grad().to_vector<double>(), std::vector<double>({2, 2}));
}

TEST(Backward, RetainedGradientsAreTheirOwn) {
  const Tensor x = leaf({1, 2}), a = x * 2, g = ones({2});
  a.retain_grad();
  a.sum().backward();
  a.grad().zero_();
  const Tensor b = x * 2;
  b.retain_grad();
  b.backward(g);
  b.grad().zero_();
  EXPECT_EQ(g.to_vector<double>(), std::vector<double>({1, 1}));
}

TEST(Leaves, FrozenMeanwhileGetNoGradient) {
  const Tensor x = leaf({1, 2}), y = (x * 3).sum();
  x.requires_grad_(false);
  y.backward();
  EXPECT_FALSE(x.grad().defined());
}

// The accumulator outlives what its tensor was.
TEST(Leaves, ThatBecomeResultsAreForgotten) {
  const Tensor x = leaf({1, 2});
  Tensor y;
  {
    const Tensor w = leaf({3, 4});
    y = (w * 5).sum();
    w.requires_grad_(false);
    w.mul_(x);
    EXPECT_FALSE(w.is_leaf());
    y.backward({}, true);
    EXPECT_FALSE(w.grad().defined());
  }
  y.backward();
  EXPECT_FALSE(x.grad().defined());
}

// 16 bits are no dtype to compute in, but gradients pass through tensors that have them.
TEST(Backward, GradientsOf16BitTensorsAddUp) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = leaf({1, 2}), half = x.to(dtype);
    half.retain_grad();
    const Tensor wide = half.to(kFloat32);
    const Tensor sum = wide.sum() + (half.to(kFloat64) * 2).sum() +
                       (cat({half, half}).to(kFloat32) * 0.5).sum() +
                       half.expand({3, 2}).to(kFloat32).sum() +
                       index_select(half, 0, tensor({1, 1}).to(kInt64)).to(kFloat32).sum() +
                       gather(half, 0, tensor({0, 1}).to(kInt64)).to(kFloat32).sum();
    sum.backward();
    expect_values(x.grad(), {8, 10});
    EXPECT_EQ(half.grad().to_vector<float>(), (std::vector<float>{8, 10}));
    half.clone().backward(ones({2}, dtype));
    expect_values(x.grad(), {9, 11});
    half.clone().backward(full({2}, 1e5));
    expect_values(x.grad(), {100'009, 100'011});
  }
}

TEST(Backward, GradientsOf16BitTensorsAreFloat32) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = tensor({1, 2}, {2}, dtype).requires_grad_();
    const auto loss = [&] { return (x.to(kFloat32) * 1e6).sum() + x.to(kFloat64).sum(); };
    for (int passes = 1; passes <= 2; ++passes) {
      loss().backward();
      EXPECT_EQ(x.grad().dtype(), kFloat32);
      expect_values(x.grad(), {passes * 1'000'001.0, passes * 1'000'001.0});
    }
    EXPECT_EQ(autograd::grad({loss()}, {x})[0].dtype(), kFloat32);
    EXPECT_ERROR(DTypeError, "expected float32", x.set_grad(ones({2}, dtype)));
    x.set_grad(ones({2}));
    loss().backward();
    expect_values(x.grad(), {1'000'002, 1'000'002});
    autograd::set_grad_buffer(x, zeros({2}));
    loss().backward();
    expect_values(x.grad(), {1'000'001, 1'000'001});
  }
}

TEST(Backward, GradientsOfPartsOf16BitTensorsAreNotRounded) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = ones({2}, dtype).requires_grad_();
    (cat({x, stack({x, x}).flatten()}, 0).to(kFloat32) * 1e6).sum().backward();
    expect_values(x.grad(), {3e6, 3e6});
  }
}

TEST(Backward, LeavesMayBeExpanded) {
  const Tensor x = ones({1}).expand({3}).requires_grad_();
  x.sum().backward();
  x.sum().backward();
  expect_values(x.grad(), {2, 2, 2});
}

}  // namespace
}  // namespace facula
