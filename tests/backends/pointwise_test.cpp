// 1x1 convolutions on channels_last.
#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

struct Problem {
  std::int64_t n, c, h, w, oc;
  Dims stride = {1, 1};

  std::string str() const {
    return fmt::format("input {} outputs {} stride {}", input(), oc, stride);
  }
  Dims input() const { return {n, c, h, w}; }
  Dims output() const { return {n, oc, (h - 1) / stride[0] + 1, (w - 1) / stride[1] + 1}; }
};

struct Operands {
  Tensor x, weight, bias, grad;

  Operands(Source& source, const Problem& p)
      : x(source.values(p.input(), kFloat32, kChannelsLast)),
        weight(source.values({p.oc, p.c, 1, 1}, kFloat32,
                             source.coin() ? kChannelsLast : kContiguous)),
        bias(source.coin() ? source.values({p.oc}) : Tensor()),
        grad(source.values(p.output(), kFloat32, kChannelsLast)) {}

  /// The convolution and both its gradients.
  Results all_three(const Problem& p) const {
    return {conv2d(x, weight, bias, p.stride),
            conv2d_backward_input(grad, weight, p.input(), p.stride, {0}, {1}, 1),
            conv2d_backward_weight(grad, x, {1, 1}, p.stride, {0}, {1}, 1)};
  }
};

void check_problem(Source& source, const Problem& p) {
  const Operands operands(source, p);
  expect_like_reference([&] { return operands.all_three(p); }, 3e-6, p.str());
}

TEST(Pointwise, RandomProblemsAgreeWithTheReference) {
  Source source(41);
  for (int i = 0; i < problems(400); ++i) {
    Problem p = {source.integer(1, 4), source.integer(1, 90), source.integer(1, 9),
                 source.integer(1, 9), source.integer(1, 90)};
    if (source.integer(0, 3) == 0) p.stride = {source.integer(1, 3), source.integer(1, 3)};
    check_problem(source, p);
  }
}

// Several slices and parts, panels of every width, the last one of every kind.
const Problem kLayers[] = {
    {4, 24, 32, 32, 144}, {4, 144, 32, 32, 24},         {3, 576, 8, 8, 96},
    {17, 160, 4, 4, 330}, {40, 960, 4, 4, 80},          {1, 16, 61, 60, 5},
    {2, 5, 70, 31, 16},   {8, 64, 32, 32, 128, {2, 2}}, {5, 200, 9, 7, 33, {2, 3}},
    {2, 1, 50, 50, 1},    {300, 70, 1, 1, 40},
};

TEST(Pointwise, LayersAgreeWithTheReference) {
  Source source(42);
  for (const Problem& p : problems(kLayers)) check_problem(source, p);
}

TEST(Pointwise, SameBitsOnAllThreads) {
  Source source(43);
  for (const Problem& p : kLayers) {
    const Operands operands(source, p);
    expect_same_bits_on_all_threads([&] { return operands.all_three(p); }, p.str());
  }
}

// Results beyond the caches are stored in another way.
TEST(Pointwise, LargeResultsAreLikeSmallOnes) {
  Source source(44);
  const Operands one(source, {1, 8, 32, 32, 144});
  const Tensor expected = conv2d(one.x, one.weight, one.bias);
  const std::int64_t count = copies_past_caches(expected);
  const Tensor y = conv2d(copies_of(one.x, count), one.weight, one.bias);
  for (std::int64_t image : {std::int64_t{0}, count / 2, count - 1}) {
    EXPECT_EQ(bytes_of(y.narrow(0, image, 1)), bytes_of(expected)) << image;
  }
}

// A convolution is the same where the pixel stands, and among how many others.
TEST(Pointwise, PixelsDoNotDependOnTheirNeighbours) {
  Source source(45);
  const Problem whole = {3, 37, 30, 31, 70};
  const Operands operands(source, whole);
  const Tensor y = conv2d(operands.x, operands.weight, operands.bias);
  for (std::int64_t row : {0, 7, 29}) {
    const Tensor part = operands.x.narrow(2, row, 1).contiguous(kChannelsLast);
    EXPECT_EQ(bytes_of(conv2d(part, operands.weight, operands.bias)), bytes_of(y.narrow(2, row, 1)))
        << row;
  }
}

TEST(Pointwise, TensorsOfOtherLayoutsGiveTheSame) {
  Source source(46);
  const Problem p = {3, 20, 9, 8, 30, {2, 1}};
  Operands operands(source, p);
  const Results expected = operands.all_three(p);
  operands.grad = operands.grad.contiguous();
  const Results mixed = operands.all_three(p);
  operands.x = operands.x.contiguous();
  const Results contiguous = operands.all_three(p);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expect_close(mixed[i], expected[i], 2e-6, p.str());
    expect_close(contiguous[i], expected[i], 2e-6, p.str());
  }
}

}  // namespace
}  // namespace facula
