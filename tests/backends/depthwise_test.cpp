#include <algorithm>

#include "ops/attrs/conv2d.h"
#include "ops/schema/convolution.h"
#include "runtime/op_registry.h"
#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

struct Problem {
  std::int64_t n, c, h, w;
  Dims kernel = {3, 3}, stride = {1, 1}, padding = {1, 1}, dilation = {1, 1};

  std::string str() const {
    return fmt::format("input {} kernel {} stride {} padding {} dilation {}", input(), kernel,
                       stride, padding, dilation);
  }
  Dims input() const { return {n, c, h, w}; }
  Dims weight() const { return {c, 1, kernel[0], kernel[1]}; }
  Dims output() const {
    return conv_shape("test", input(), weight(), {stride, padding, dilation, c}).output_sizes();
  }
  bool fits() const {
    return h + 2 * padding[0] > dilation[0] * (kernel[0] - 1) &&
           w + 2 * padding[1] > dilation[1] * (kernel[1] - 1);
  }
};

struct Operands {
  Tensor x, weight, bias, grad;

  Operands(Source& source, const Problem& p, MemoryFormat format)
      : x(source.values(p.input(), kFloat32, format)),
        weight(source.values(p.weight(), kFloat32, source.coin() ? format : kContiguous)),
        bias(source.coin() ? source.values({p.c}) : Tensor()),
        grad(source.values(p.output(), kFloat32, format)) {}

  /// The convolution and both its gradients.
  Results all_three(const Problem& p) const {
    return {conv2d(x, weight, bias, p.stride, p.padding, p.dilation, p.c),
            conv2d_backward_input(grad, weight, p.input(), p.stride, p.padding, p.dilation, p.c),
            conv2d_backward_weight(grad, x, p.kernel, p.stride, p.padding, p.dilation, p.c)};
  }
};

void check_problem(Source& source, const Problem& p, MemoryFormat format) {
  const Operands operands(source, p, format);
  expect_like_reference([&] { return operands.all_three(p); }, 2e-6, p.str());
}

TEST(Depthwise, RandomProblemsAgreeWithTheReference) {
  Source source(31);
  for (int i = 0; i < problems(300); ++i) {
    Problem p;
    do {
      p = {source.integer(1, 4), source.integer(2, 70), source.integer(1, 13),
           source.integer(1, 13)};
      if (source.coin()) p.kernel = {source.integer(1, 7), source.integer(1, 7)};
      p.padding = {source.integer(0, p.kernel[0]), source.integer(0, p.kernel[1])};
      if (source.coin()) p.stride = {source.integer(1, 3), source.integer(1, 3)};
      if (source.integer(0, 3) == 0) p.dilation = {source.integer(1, 3), source.integer(1, 3)};
    } while (!p.fits());
    check_problem(source, p, i % 3 ? kChannelsLast : kContiguous);
  }
}

// Several slices, images cut between them, blocks of channels with a remainder.
const Problem kLayers[] = {
    {3, 96, 32, 32},
    {5, 144, 17, 17, {3, 3}, {2, 2}},
    {7, 200, 16, 15},
    {9, 330, 8, 8},
    {17, 970, 4, 4},
    {6, 135, 7, 7},
    {5, 50, 9, 7, {2, 3}, {2, 1}, {0, 1}, {2, 1}},
    {4, 576, 8, 8, {3, 3}, {2, 2}},
    {1, 40, 60, 61, {5, 5}, {1, 1}, {2, 2}},
    {2, 72, 29, 28, {7, 7}, {2, 2}, {3, 3}},
    {2, 33, 40, 24, {3, 3}, {1, 1}, {4, 4}, {4, 4}},
    {1, 33, 5, 28},
    {2, 40, 6, 14},
    {1, 40, 20, 23, {7, 7}, {1, 1}, {3, 3}},
    {2, 20, 9, 9, {3, 3}, {4, 4}, {0, 0}},
    {1, 24, 2, 2, {3, 3}, {1, 1}, {5, 5}},  // windows that lie in the padding alone
    // Lines that fill their vectors, in bands and with taps apart.
    {2, 19, 130, 111},
    {1, 21, 27, 30, {7, 7}, {1, 1}, {6, 2}},
    {3, 18, 9, 44, {3, 3}, {1, 1}, {0, 4}, {1, 2}},
    {2, 17, 3, 500, {5, 5}, {1, 1}, {2, 0}},
};

TEST(Depthwise, LayersAgreeWithTheReference) {
  Source source(32);
  for (const Problem& p : problems(kLayers)) {
    for (const MemoryFormat format : {kChannelsLast, kContiguous}) check_problem(source, p, format);
  }
}

TEST(Depthwise, SameBitsOnAllThreads) {
  Source source(33);
  for (const Problem& p : kLayers) {
    for (const MemoryFormat format : {kChannelsLast, kContiguous}) {
      const Operands operands(source, p, format);
      expect_same_bits_on_all_threads([&] { return operands.all_three(p); }, p.str());
    }
  }
}

TEST(Depthwise, PlanesHaveTheBitsOfChannelsLast) {
  Source source(35);
  for (const Problem& p : kLayers) {
    const Operands last(source, p, kChannelsLast);
    const auto results = [&](const Tensor& x, const Tensor& grad) -> Results {
      return {conv2d(x, last.weight, last.bias, p.stride, p.padding, p.dilation, p.c),
              conv2d_backward_input(grad, last.weight, p.input(), p.stride, p.padding, p.dilation,
                                    p.c)};
    };
    const Results expected = results(last.x, last.grad);
    const Results planes = results(last.x.contiguous(), last.grad.contiguous());
    for (std::size_t i = 0; i < planes.size(); ++i) {
      EXPECT_TRUE(planes[i].is_contiguous()) << p.str();
      EXPECT_TRUE(bytes_of(planes[i]) == bytes_of(expected[i].contiguous())) << p.str();
    }
  }
}

// Results beyond the caches are stored in another way.
TEST(Depthwise, LargeResultsAreLikeSmallOnes) {
  Source source(34);
  const Operands one(source, {1, 64, 48, 48}, kChannelsLast);
  for (std::int64_t stride : {1, 2}) {
    const auto result = [&](const Tensor& x) {
      return conv2d(x, one.weight, one.bias, {stride}, {1}, {1}, 64);
    };
    const Tensor expected = result(one.x);
    const std::int64_t count = copies_past_caches(expected);
    const Tensor y = result(copies_of(one.x, count));
    for (std::int64_t image : {std::int64_t{0}, count / 2, count - 1}) {
      EXPECT_EQ(bytes_of(y.narrow(0, image, 1)), bytes_of(expected)) << stride << ", " << image;
    }
  }
}

// Neither time nor memory depends on strides, padding and dilation far beyond the image, in any
// implementation.
TEST(Convolutions, StepsFarBeyondTheImageTakeNothing) {
  constexpr std::int64_t kFar = 1000000000, kFarthest = 2147483647;
  struct Steps {
    std::int64_t stride, padding, dilation;
  };
  for (DType dtype : {kFloat32, kFloat64}) {
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      for (std::int64_t channels : {3, 32}) {
        for (const Steps s : {Steps{kFarthest, 0, 1}, {kFar, kFar, 1}, {1, kFar, kFar}}) {
          for (std::int64_t groups : {std::int64_t{1}, channels}) {
            for (std::int64_t kernel : {1, 3}) {
              if (kernel == 1 && s.dilation > 1) continue;
              const Dims stride = {s.stride, s.stride}, padding = {s.padding, s.padding};
              const Dims dilation = {s.dilation, s.dilation};
              const Tensor x = ones({2, channels, 8, 8}, dtype).contiguous(format);
              const Tensor w = ones({channels, channels / groups, kernel, kernel}, dtype);
              const Tensor y = conv2d(x, w, {}, stride, padding, dilation, groups);
              const Tensor grad = ones(y.sizes(), dtype).contiguous(format);
              const double sum = y.sum().item<double>();
              EXPECT_GT(sum, 0);
              EXPECT_EQ(conv2d_backward_input(grad, w, x.sizes(), stride, padding, dilation, groups)
                            .sum()
                            .item<double>(),
                        sum);
              EXPECT_EQ(conv2d_backward_weight(grad, x, {kernel, kernel}, stride, padding, dilation,
                                               groups)
                            .sum()
                            .item<double>(),
                        sum);
            }
          }
        }
      }
    }
  }
}

TEST(Depthwise, PlanesOfFilledLinesStayPlanes) {
  struct Case {
    Problem problem;
    MemoryFormat format;
    std::string_view expected;
  };
  const Case cases[] = {
      {{2, 20, 14, 14}, kContiguous, "depthwise by planes"},
      {{2, 20, 56, 56, {5, 5}, {1, 1}, {2, 2}}, kContiguous, "depthwise by planes"},
      {{2, 20, 14, 14}, kChannelsLast, "depthwise"},
      {{2, 20, 7, 7}, kContiguous, "depthwise"},
      {{2, 20, 28, 28, {3, 3}, {2, 2}}, kContiguous, "depthwise"},
      {{2, 20, 28, 28, {3, 3}, {1, 1}, {2, 2}, {2, 2}}, kContiguous, "depthwise"},
      {{2, 20, 28, 28, {3, 5}}, kContiguous, "depthwise"},
      {{2, 20, 28, 28, {3, 3}, {1, 1}, {3, 1}}, kContiguous, "depthwise"},
  };
  for (const auto& [p, format, expected] : cases) {
    const Tensor x = zeros(p.input()).contiguous(format), weight = zeros(p.weight());
    const Tensor* inputs[] = {&x, &weight};
    const ops::conv2d_attrs attrs{p.stride, p.padding, p.dilation, p.c};
    Tensor out = zeros(p.output()).contiguous(format);
    const KernelArgs args{{op(OpId::conv2d), inputs, 2, &attrs}, &out, 1};
    const auto& list = implementations(OpId::conv2d, DeviceType::cpu);
    const auto first = std::ranges::find_if(
        list, [&](const Implementation& i) { return !i.refuse || !i.refuse(args); });
    EXPECT_EQ(first->name, expected) << p.str();
  }
}

TEST(Depthwise, LeavesOtherGroupsAndTypesToOthers) {
  const auto refusal = [](IntList input, IntList weight, std::int64_t groups, DType dtype) {
    const Tensor x = zeros(input, dtype), w = zeros(weight, dtype);
    const Tensor* inputs[] = {&x, &w};
    const ops::conv2d_attrs attrs{
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = groups};
    Tensor out;
    const KernelArgs args{{op(OpId::conv2d), inputs, 2, &attrs}, &out, 1};
    for (const Implementation& entry : implementations(OpId::conv2d, DeviceType::cpu)) {
      if (std::string_view(entry.name) == "depthwise") return entry.refuse(args);
    }
    return "not registered";
  };
  EXPECT_EQ(refusal({1, 4, 5, 5}, {4, 1, 3, 3}, 4, kFloat32), nullptr);
  EXPECT_STREQ(refusal({1, 4, 5, 5}, {4, 1, 3, 3}, 4, kFloat64), "only float32");
  EXPECT_STREQ(refusal({1, 4, 5, 5}, {8, 1, 3, 3}, 4, kFloat32), "not depthwise");
  EXPECT_STREQ(refusal({1, 4, 5, 5}, {4, 2, 3, 3}, 2, kFloat32), "not depthwise");
  EXPECT_STREQ(refusal({1, 1, 5, 5}, {1, 1, 3, 3}, 1, kFloat32), "not depthwise");
}

// Taps far beside the image: lines with margins for them would take 80 GiB.
TEST(Depthwise, DilationsMayBeFarLargerThanImages) {
  const std::int64_t far = 2'147'483'647;
  const Tensor x = ones({1, 8, 3, 20}), w = ones({8, 1, 3, 3});
  const Tensor y = conv2d(x, w, {}, {1, 1}, {1, far}, {1, far}, 8);
  EXPECT_TRUE(equal(
      y, conv2d(x.to(kFloat64), w.to(kFloat64), {}, {1, 1}, {1, far}, {1, far}, 8).to(kFloat32)));
}

}  // namespace
}  // namespace facula
