// 1x1 convolutions as products with the weights where they lie.
#include "backends/cpu/convolution.h"

#include <algorithm>

#include "ops/attrs/conv2d.h"
#include "runtime/op_registry.h"
#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

using cpu::ByMatrix;

struct Problem {
  Dims input;
  std::int64_t outputs;
  MemoryFormat format;
  ByMatrix expected;

  std::string str() const {
    return fmt::format("input {} outputs {}{}", input, outputs,
                       format == kChannelsLast ? " channels_last" : "");
  }
  Dims output() const { return {input[0], outputs, input[2], input[3]}; }
  Dims weight() const { return {outputs, input[1], 1, 1}; }
};

const Problem kProblems[] = {
    {{1, 130, 7, 7}, 140, kChannelsLast, ByMatrix::pixels},
    {{3, 70, 9, 8}, 300, kChannelsLast, ByMatrix::pixels},
    {{16, 256, 4, 4}, 64, kChannelsLast, ByMatrix::pixels},
    {{5, 150, 1, 1}, 200, kChannelsLast, ByMatrix::pixels},
    {{1, 1030, 7, 7}, 40, kContiguous, ByMatrix::pixels},
    {{4, 200, 3, 7}, 90, kContiguous, ByMatrix::pixels},
    {{1, 128, 8, 8}, 129, kContiguous, ByMatrix::planes},
    {{3, 300, 14, 13}, 70, kContiguous, ByMatrix::planes},
    {{1, 1, 9, 9}, 16384, kContiguous, ByMatrix::pixels},
    {{1, 64, 8, 8}, 255, kContiguous, ByMatrix::no},
    {{65, 150, 2, 2}, 200, kChannelsLast, ByMatrix::no},
    {{257, 150, 1, 1}, 200, kChannelsLast, ByMatrix::pixels},
    {{40, 17, 1, 1}, 9, kContiguous, ByMatrix::pixels},
    {{6, 150, 7, 7}, 200, kContiguous, ByMatrix::no},
};

struct Patches {
  Dims input, kernel;
  std::int64_t outputs;

  std::string str() const {
    return fmt::format("input {} kernel {} outputs {}", input, kernel, outputs);
  }
};

// The last rows and columns of some images belong to no window.
const Patches kPatches[] = {{{2, 3, 32, 32}, {4, 4}, 40},
                            {{1, 3, 67, 50}, {3, 5}, 17},
                            {{3, 2, 224, 33}, {16, 2}, 64},
                            {{2, 7, 20, 16}, {2, 2}, 5}};

struct Operands {
  Tensor x, weight, bias, grad;

  Operands(Source& source, const Problem& p)
      : x(source.values(p.input, kFloat32, p.format)),
        weight(source.values(p.weight(), kFloat32, source.coin() ? kChannelsLast : kContiguous)),
        bias(source.values({p.outputs})),
        grad(source.values(p.output(), kFloat32, p.format)) {}

  Results all(const Problem& p) const {
    return {conv2d(x, weight, bias), conv2d(x, weight),
            conv2d_backward_input(grad, weight, p.input, {1}, {0}, {1}, 1),
            conv2d_backward_weight(grad, x, {1, 1}, {1}, {0}, {1}, 1)};
  }
};

TEST(Conv2dMatrix, TakesFewPixelsAndPlanes) {
  for (const Problem& p : kProblems) {
    const Tensor x = zeros(p.input).contiguous(p.format), weight = zeros(p.weight());
    const Tensor* inputs[] = {&x, &weight};
    const ops::conv2d_attrs attrs{{1, 1}, {0, 0}, {1, 1}, 1};
    Tensor out = zeros(p.output()).contiguous(p.format);
    const KernelArgs args{{op(OpId::conv2d), inputs, 2, &attrs}, &out, 1};
    EXPECT_EQ(cpu::by_matrix(args, cpu::conv_shape_of(args)), p.expected) << p.str();
    const auto& list = implementations(OpId::conv2d, DeviceType::cpu);
    const auto first = std::ranges::find_if(
        list, [&](const Implementation& i) { return !i.refuse || !i.refuse(args); });
    EXPECT_EQ(std::string_view(first->name) == "matrix product", p.expected != ByMatrix::no)
        << p.str();
  }
}

TEST(Conv2dMatrix, AgreesWithTheReference) {
  Source source(81);
  for (const Problem& p : kProblems) {
    const Operands operands(source, p);
    expect_like_reference([&] { return operands.all(p); }, 3e-6, p.str());
  }
}

TEST(Conv2dMatrix, PatchesOfPlanes) {
  Source source(84);
  for (const Patches& p : kPatches) {
    const Tensor x = source.values(p.input), bias = source.values({p.outputs});
    const Tensor weight = source.values({p.outputs, p.input[1], p.kernel[0], p.kernel[1]});
    const ops::conv2d_attrs attrs{p.kernel, {0, 0}, {1, 1}, 1};
    Tensor out = conv2d(x, weight, bias, p.kernel);
    const Tensor* inputs[] = {&x, &weight};
    const KernelArgs args{{op(OpId::conv2d), inputs, 2, &attrs}, &out, 1};
    EXPECT_EQ(cpu::by_matrix(args, cpu::conv_shape_of(args)), ByMatrix::patches) << p.str();
    for (const Tensor& w : {weight, weight.contiguous(kChannelsLast)}) {
      const auto both = [&] {
        return Results{conv2d(x, w, bias, p.kernel), conv2d(x, w, {}, p.kernel)};
      };
      expect_like_reference(both, 3e-6, p.str());
      expect_same_bits_on_all_threads(both, p.str());
    }
  }
}

TEST(Conv2dMatrix, SameBitsOnAllThreads) {
  Source source(82);
  for (const Problem& p : kProblems) {
    const Operands operands(source, p);
    expect_same_bits_on_all_threads([&] { return operands.all(p); }, p.str());
  }
}

TEST(Conv2dMatrix, TensorsOfOtherLayoutsGiveTheSame) {
  Source source(83);
  for (const Problem& p : kProblems) {
    Operands operands(source, p);
    const Results expected = operands.all(p);
    const MemoryFormat other = p.format == kChannelsLast ? kContiguous : kChannelsLast;
    operands.grad = operands.grad.contiguous(other);
    const Results mixed = operands.all(p);
    operands.x = operands.x.contiguous(other);
    const Results both = operands.all(p);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_close(mixed[i], expected[i], 3e-6, p.str());
      expect_close(both[i], expected[i], 3e-6, p.str());
    }
  }
}

}  // namespace
}  // namespace facula
