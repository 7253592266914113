#include <facula/autograd.h>

#include <stdexcept>

#include "tests/support/expect.h"

namespace facula {
namespace {

using Tensors = std::vector<Tensor>;

TEST(Gradcheck, AcceptsRightGradients) {
  const Tensor a = tensor({1, 2, 3, 4, 5, 6}, {2, 3}, kFloat64).requires_grad_();
  const Tensor b = leaf({0.1, 0.2, 0.3}, kFloat64);
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] * in[1], in[1].tanh().sum()};
  };
  EXPECT_EQ(autograd::gradcheck(function, {a, b}, {.second_order = true}), "");
  EXPECT_FALSE(a.grad().defined());
}

TEST(Gradcheck, AcceptsStridedInputsAndIntegerOutputs) {
  const Tensor base = rand({3, 2}, kFloat64);
  const Tensor a = base.permute({1, 0}).detach().requires_grad_();
  const auto function = [](const Tensors& in) { return Tensors{in[0] * in[0], in[0] < 0.5}; };
  EXPECT_EQ(autograd::gradcheck(function, {a}), "");
}

TEST(Gradcheck, RejectsWrongGradients) {
  const Tensor x = leaf({1, 2}, kFloat64);
  const auto wrong = [](const Tensors& in) {
    return autograd::apply_function(
        "wrong", in, [&](autograd::FunctionContext&) { return Tensors{in[0] * 2}; },
        [](autograd::FunctionContext&, const Tensors& gradients) {
          return Tensors{gradients[0] * 3};
        });
  };
  const std::string difference = autograd::gradcheck(wrong, {x});
  EXPECT_NE(difference.find("backward gives 3"), std::string::npos) << difference;
}

TEST(Gradcheck, RejectsWrongSecondDerivatives) {
  const Tensor x = leaf({1, 2}, kFloat64);
  const auto wrong = [](const Tensors& in) {
    const Tensor frozen = in[0].detach();
    return autograd::apply_function(
        "frozen", in, [&](autograd::FunctionContext&) { return Tensors{in[0] * in[0]}; },
        [frozen](autograd::FunctionContext&, const Tensors& gradients) {
          return Tensors{gradients[0] * frozen * 2};
        });
  };
  EXPECT_EQ(autograd::gradcheck(wrong, {x}), "");
  EXPECT_NE(autograd::gradcheck(wrong, {x}, {.second_order = true}).find("second order"),
            std::string::npos);
}

TEST(Gradcheck, RejectsGradientsWithoutAGraphUnlessTheyAreConstant) {
  const auto scaled = [](bool constant) {
    return [constant](const Tensors& in) {
      return autograd::apply_function(
          "detached", in,
          [&](autograd::FunctionContext& context) {
            context.save_for_backward(in);
            return Tensors{constant ? in[0] * 3 : in[0] * in[0]};
          },
          [constant](autograd::FunctionContext& context, const Tensors& gradients) {
            NoGradGuard no_grad;
            const Tensor x = context.saved_tensors()[0];
            return Tensors{gradients[0] * (constant ? ones_like(x) * 3 : x * 2)};
          });
    };
  };
  const Tensor x = leaf({1, 2}, kFloat64);
  EXPECT_EQ(autograd::gradcheck(scaled(false), {x}), "");
  EXPECT_NE(autograd::gradcheck(scaled(false), {x}, {.second_order = true}).find("second order"),
            std::string::npos);
  // The gradient of 3x has none with respect to x, but one with respect to what it starts from.
  EXPECT_NE(autograd::gradcheck(scaled(true), {x}, {.second_order = true}).find("second order"),
            std::string::npos);
  const auto stepped = [](const Tensors& in) { return Tensors{in[0] * 3 + floor(in[0])}; };
  EXPECT_EQ(autograd::gradcheck(stepped, {leaf({1.5, 2.5}, kFloat64)}, {.second_order = true}), "");
  // That of floor has no graph at all.
  const auto floored = [](const Tensors& in) { return Tensors{floor(in[0])}; };
  EXPECT_EQ(autograd::gradcheck(floored, {leaf({1.5, 2.5}, kFloat64)}, {.second_order = true}), "");
}

TEST(Gradcheck, RejectsUnsuitableInputs) {
  const auto identity = [](const Tensors& in) { return in; };
  EXPECT_ERROR(DTypeError, "float64", autograd::gradcheck(identity, {leaf({1})}));
  EXPECT_ERROR(AutogradError, "does not require grad",
               autograd::gradcheck(identity, {ones({1}, kFloat64)}));
  EXPECT_ERROR(AutogradError, "no output",
               autograd::gradcheck([](const Tensors& in) { return Tensors{in[0] < 1}; },
                                   {leaf({1}, kFloat64)}));
  const Tensor expanded = ones({1}, kFloat64).expand({3}).detach().requires_grad_();
  EXPECT_ERROR(ValueError, "elements of input 0 of size [3] share memory",
               autograd::gradcheck(identity, {expanded}));
}

TEST(Gradcheck, LeavesInputsAsTheyWere) {
  const Tensor x = leaf({1, 2}, kFloat64);
  const auto throwing = [](const Tensors& in) {
    if (in[0][1].item<double>() != 2) throw std::runtime_error("not here");
    return Tensors{in[0] * 2};
  };
  EXPECT_THROW(autograd::gradcheck(throwing, {x}), std::runtime_error);
  expect_values(x, {1, 2}, 0);
  const auto of_any_size = [](const Tensors& in) {
    return Tensors{in[0].narrow(0, 0, in[0][0].item<double>() < 1 ? 1 : 2)};
  };
  EXPECT_ERROR(ValueError, "the size must not depend", autograd::gradcheck(of_any_size, {x}));
}

TEST(Gradcheck, NeedsAFunction) {
  EXPECT_ERROR(ValueError, "gradcheck: the function is empty", autograd::gradcheck(nullptr, {}));
}

}  // namespace
}  // namespace facula
