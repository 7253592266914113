#include <facula/autograd.h>
#include <facula/memory.h>

#include "tests/support/expect.h"

namespace facula {
namespace {

using autograd::Function;
using autograd::FunctionContext;

struct Square : Function<Square> {
  static constexpr const char* name = "Square";
  static std::vector<Tensor> forward(FunctionContext& context, const std::vector<Tensor>& in) {
    EXPECT_FALSE(AutoGradMode::is_enabled());
    context.save_for_backward({in[0]});
    return {in[0] * in[0]};
  }
  static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& grad) {
    return {grad[0] * context.saved_tensors()[0] * 2};
  }
};

/// exp, saving its output.
struct Exp : Function<Exp> {
  static std::vector<Tensor> forward(FunctionContext& context, const std::vector<Tensor>& in) {
    const Tensor y = in[0].exp();
    context.save_for_backward({y, Tensor()});
    return {y};
  }
  static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& grad) {
    EXPECT_FALSE(context.saved_tensors()[1].defined());
    return {grad[0] * context.saved_tensors()[0]};
  }
};

/// x^n and the positions of its positive elements.
struct Power : Function<Power> {
  static constexpr const char* name = "Power";
  static std::vector<Tensor> forward(FunctionContext& context, const std::vector<Tensor>& in,
                                     double exponent, const std::string& label) {
    EXPECT_EQ(label, "cube");
    context.save_for_backward(in);
    context.saved_data = exponent;
    std::vector<Tensor> outputs = {in[0].pow(exponent), in[0].sign()};
    context.mark_non_differentiable({outputs[1]});
    return outputs;
  }
  static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& grad) {
    EXPECT_FALSE(grad[1].defined());
    EXPECT_ERROR(AutogradError, "mark_non_differentiable: called in backward",
                 context.mark_non_differentiable({}));
    const double exponent = std::any_cast<double>(context.saved_data);
    context.saved_data.reset();
    return {grad[0] * context.saved_tensors()[0].pow(exponent - 1) * exponent};
  }
};

TEST(Function, ForwardAndBackward) {
  const Tensor x = leaf({2, 3});
  const Tensor y = Square::apply({x})[0];
  EXPECT_TRUE(y.requires_grad());
  expect_values(y, {4, 9});
  y.sum().backward();
  expect_values(x.grad(), {4, 6});
  EXPECT_ERROR(AutogradError, "backward through Square: its saved tensors were freed",
               y.sum().backward());
}

TEST(Function, TakesArgumentsAndMarksOutputs) {
  const Tensor x = leaf({2, -3});
  const auto outputs = Power::apply({x}, 3.0, "cube");
  expect_values(outputs[0], {8, -27});
  EXPECT_TRUE(outputs[0].requires_grad());
  EXPECT_FALSE(outputs[1].requires_grad());
  EXPECT_TRUE(outputs[1].is_leaf());
  // Every backward finds what forward left, whatever the one before did to its copy.
  for (int i = 0; i < 2; ++i) {
    x.set_grad(Tensor());
    autograd::backward({outputs[0].sum()}, {}, true);
    expect_values(x.grad(), {12, 27});
  }
}

TEST(Function, HigherDerivatives) {
  const Tensor x = leaf({0.5}, kFloat64);
  EXPECT_EQ(autograd::gradcheck([](const auto& in) { return Square::apply(in); }, {x},
                                {.second_order = true}),
            "");
  EXPECT_EQ(autograd::gradcheck([](const auto& in) { return Exp::apply(in); }, {x},
                                {.second_order = true}),
            "");
}

TEST(Function, RecordsNothingWithoutNeed) {
  EXPECT_FALSE(Square::apply({tensor({1.0})})[0].requires_grad());
  NoGradGuard no_grad;
  EXPECT_FALSE(Square::apply({leaf({1})})[0].requires_grad());
}

// Of what is to be trained, an input or another parameter, too.
TEST(Function, PassesOnValuesAloneWithoutNeed) {
  const Tensor x = leaf({1, 2}), other = leaf({3});
  const auto backward = [](FunctionContext&, const std::vector<Tensor>& gradients) {
    return gradients;
  };
  const auto pass_on = [&](const Tensor& input) {
    return autograd::apply_function(
        "pass on", {input},
        [&](FunctionContext&) {
          return std::vector{input, other, Tensor()};
        },
        backward);
  };
  const auto expect_values_alone = [&](const std::vector<Tensor>& outputs, const Tensor& input) {
    for (std::size_t i : {0, 1}) {
      const Tensor& whole = i == 0 ? input : other;
      EXPECT_FALSE(outputs[i].requires_grad()) << i;
      EXPECT_TRUE(equal(outputs[i], whole.detach())) << i;
    }
    EXPECT_FALSE(outputs[2].defined());
  };
  const Tensor constant = tensor({5.0});
  expect_values_alone(pass_on(constant), constant);
  EXPECT_TRUE(pass_on(constant)[0].is_same(constant));
  {
    const NoGradGuard no_grad;
    expect_values_alone(pass_on(x), x);
  }
  const InferenceMode inference;
  expect_values_alone(pass_on(x), x);
}

TEST(Function, NeedsUnusedOutputsAndPassedInputs) {
  const Tensor x = leaf({1, 2}), c = tensor({3.0, 4});
  const auto outputs = autograd::apply_function(
      "two", {x, c},
      [&](FunctionContext& context) {
        EXPECT_TRUE(context.needs_input_grad(0));
        EXPECT_FALSE(context.needs_input_grad(1));
        return std::vector<Tensor>{x, x * c, x < c};
      },
      [](FunctionContext& context, const std::vector<Tensor>& gradients) {
        EXPECT_TRUE(context.needs_input_grad(0));
        EXPECT_FALSE(gradients[1].defined());
        return std::vector<Tensor>{gradients[0] * 5, Tensor()};
      });
  EXPECT_FALSE(outputs[0].is_same(x));
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(outputs[2].requires_grad());
  outputs[0].sum().backward();
  expect_values(x.grad(), {5, 5});
}

// Whatever a backward gives, only what lies on the way to the wanted tensors gets a gradient.
TEST(Function, GradientsOfOtherInputsGoNowhere) {
  struct Product : Function<Product> {
    static std::vector<Tensor> forward(FunctionContext& context, const std::vector<Tensor>& in) {
      context.save_for_backward(in);
      return {in[0] * in[1]};
    }
    static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& grad) {
      const auto& in = context.saved_tensors();
      return {grad[0] * in[1], grad[0] * in[0]};
    }
  };
  const Tensor x = tensor(2.).requires_grad_(), weight = tensor(3.).requires_grad_();
  const Tensor y = weight * 1;
  int calls = 0;
  autograd::register_hook(y, [&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  const Tensor product = Product::apply({x, y})[0];
  EXPECT_EQ(autograd::grad({product}, {x}, {.retain_graph = true})[0].item<double>(), 3);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(autograd::grad({product}, {weight})[0].item<double>(), 2);
  EXPECT_EQ(calls, 1);
}

TEST(Function, MistakesAreExplained) {
  const Tensor x = leaf({1, 2});
  const auto forward = [&](FunctionContext&) { return std::vector<Tensor>{x * 2}; };
  const auto returning = [&](std::vector<Tensor> gradients) {
    return autograd::apply_function(
               "Faulty", {x}, forward,
               [gradients](FunctionContext&, const std::vector<Tensor>&) { return gradients; })[0]
        .sum();
  };
  EXPECT_ERROR(AutogradError, "Faulty: backward returned 2 gradients for 1 inputs",
               returning({ones({2}), ones({2})}).backward());
  EXPECT_ERROR(ShapeError,
               "Faulty: backward returned a gradient of size [3] for input 0 of size [2]; return "
               "one of the input's size",
               returning({ones({3})}).backward());
  returning({Tensor()}).backward();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Function, SavedTensorsAreWatched) {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 1;
  const Tensor y = Square::apply({h})[0].sum();
  h.add_(1);
  EXPECT_ERROR(AutogradError, "backward through Square: saved tensor 0", y.backward());
}

TEST(Function, SavedOutputsMakeNoCircle) {
  const std::int64_t before = cpu::memory_allocated();
  for (int i = 0; i < 10; ++i) Exp::apply({rand({1 << 16}, {kFloat32, kCPU, true})});
  EXPECT_LT(cpu::memory_allocated() - before, 1 << 18);
}

TEST(Function, NeedsBothDirections) {
  using autograd::FunctionContext;
  const auto forward = [](FunctionContext&) { return std::vector<Tensor>{ones({1})}; };
  EXPECT_ERROR(ValueError, "Half: forward or backward is empty",
               autograd::apply_function("Half", {leaf({1})}, forward, nullptr));
}

TEST(Function, PassedInputsMayNotChangeInPlace) {
  const auto same = [](const Tensor& x) {
    return autograd::apply_function(
        "Same", {x}, [x](FunctionContext&) { return std::vector<Tensor>{x}; },
        [](FunctionContext&, const std::vector<Tensor>& g) { return g; })[0];
  };
  const Tensor x = leaf({1, 2}), y = x * 2;
  for (const Tensor& input : {x, y}) {
    EXPECT_ERROR(AutogradError, "mul_: an in-place operation that needs a gradient writes into a",
                 same(input).mul_(3));
  }
  expect_values(x, {1, 2});
  // A detached input's views are those of what the function passed on.
  const Tensor w = leaf({1, 1}), detached = y.detach();
  const Tensor out = autograd::apply_function(
      "Pass", {detached, w}, [&](FunctionContext&) { return std::vector<Tensor>{detached}; },
      [](FunctionContext&, const std::vector<Tensor>& g) {
        return std::vector<Tensor>{g[0], g[0]};
      })[0];
  detached.mul_(x);
  EXPECT_ERROR(AutogradError, "take the view again", out * 1);
}

TEST(Function, GradientsTakeTheDtypeOfTheirInput) {
  const auto gradient_in = [](DType dtype) {
    const Tensor x = leaf({1, 2});
    const Tensor y = autograd::apply_function(
        "F", {x}, [x](FunctionContext&) { return std::vector<Tensor>{x * 2}; },
        [dtype](FunctionContext&, const std::vector<Tensor>& g) {
          return std::vector<Tensor>{(g[0] * 2).to(dtype)};
        })[0];
    y.sum().backward();
    return x.grad();
  };
  expect_values(gradient_in(kFloat64), {2, 2});
  const Tensor x = leaf({1, 2});
  const Tensor y = autograd::apply_function(
      "F", {x.to(kBFloat16)}, [](FunctionContext&) { return std::vector<Tensor>{ones({2})}; },
      [](FunctionContext&, const std::vector<Tensor>& g) {
        return std::vector<Tensor>{g[0] * 1.001};
      })[0];
  y.sum().backward();
  EXPECT_NEAR(x.grad()[0].item(), 1.001, 1e-6) << "in float32";
  EXPECT_ERROR(DTypeError, "F: backward returned a int64 gradient", gradient_in(kInt64));
}

TEST(Function, MoreThanCanBeRecordedIsAnError) {
  const Tensor x = leaf({1});
  const auto outputs = [&](int count) {
    return autograd::apply_function(
        "Many", {x},
        [&](FunctionContext&) {
          std::vector<Tensor> all;
          for (int i = 0; i < count; ++i) all.push_back(x * i);
          return all;
        },
        [](FunctionContext&, const std::vector<Tensor>& g) {
          return std::vector<Tensor>{g.back() * 255};
        });
  };
  outputs(256)[255].backward();
  EXPECT_EQ(x.grad().item<double>(), 255);
  EXPECT_ERROR(AutogradError, "Many: 1 inputs and 257 outputs", outputs(257));
  const auto saved = [&](std::size_t count) {
    return autograd::apply_function(
        "Saves", {x},
        [&](FunctionContext& context) {
          context.save_for_backward(std::vector<Tensor>(count, x));
          return std::vector<Tensor>{x * 1};
        },
        [](FunctionContext& context, const std::vector<Tensor>& g) {
          EXPECT_EQ(context.saved_tensors().size(), 65535u);
          return g;
        });
  };
  saved(65535)[0].backward();
  EXPECT_ERROR(AutogradError, "Saves: 65536 tensors to save", saved(65536));
}

}  // namespace
}  // namespace facula
