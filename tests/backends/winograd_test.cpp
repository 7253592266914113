// Winograd convolution. Measured against float64 on layers of 16 to 512 channels with normal
// values, max |error| / max |result| of the convolution and the gradient of its input is 0.8e-6
// to 3.0e-6, that of the gradient of the weights 0.6e-6 to 1.5e-6. Direct summation, which has long
// sums where this has blocks of them, has 0.2e-6 to 3.4e-6 and 0.1e-6 to 1.0e-6 (bench_kernels
// --check). Root mean squares, relative, measured earlier: 0.4e-6 to 1.2e-6 against 0.1e-6 to
// 1.1e-6.
//
// With stride 2: 0.5e-6 to 1.5e-6 against 0.4e-6 to 3.1e-6 for the convolution and the gradient of
// its input, 0.4e-6 to 0.5e-6 against 0.2e-6 to 0.9e-6 for that of the weights; root mean squares
// 0.3e-6 to 0.5e-6 against 0.2e-6 to 1.1e-6.
#include <malloc.h>
#include <sys/resource.h>

#include <cstdlib>

#include <facula/backends.h>

#include "base/divide_up.h"
#include "ops/attrs/conv2d.h"
#include "ops/attrs/conv2d_backward_input.h"
#include "ops/schema/convolution.h"
#include "runtime/op_registry.h"
#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

constexpr double kTolerance = 4e-6;

struct Problem {
  std::int64_t n, c, oc, h, w;
  Dims padding = {1, 1};
  std::int64_t stride = 1;

  std::string str() const {
    return fmt::format("input [{}, {}, {}, {}] outputs {} padding {} stride {}", n, c, h, w, oc,
                       padding, stride);
  }
  Dims input() const { return {n, c, h, w}; }
  Dims strides() const { return {stride, stride}; }
  Dims output() const {
    return {n, oc, (h + 2 * padding[0] - 3) / stride + 1, (w + 2 * padding[1] - 3) / stride + 1};
  }
};

struct Operands {
  Tensor x, weight, bias, grad;

  Operands(Source& source, const Problem& p, MemoryFormat format)
      : x(source.values(p.input(), kFloat32, format)),
        weight(source.values({p.oc, p.c, 3, 3}, kFloat32, source.coin() ? format : kContiguous)),
        bias(source.coin() ? source.values({p.oc}) : Tensor()),
        grad(source.values(p.output(), kFloat32, format)) {}

  /// The convolution and both its gradients.
  Results all_three(const Problem& p) const {
    return {conv2d(x, weight, bias, p.strides(), p.padding),
            conv2d_backward_input(grad, weight, p.input(), p.strides(), p.padding),
            conv2d_backward_weight(grad, x, {3, 3}, p.strides(), p.padding)};
  }
};

/// Restores the switch.
class SwitchGuard {
 public:
  ~SwitchGuard() { backends::cpu::winograd(before_); }

 private:
  bool before_ = backends::cpu::winograd();
};

/// What `compute` gives without Winograd's algorithm.
Tensor directly(const std::function<Tensor()>& compute) {
  const SwitchGuard restore;
  backends::cpu::winograd(false);
  return compute();
}

/// Which of the three ops use Winograd's algorithm: their bits change with the switch.
std::vector<bool> uses_winograd(const Problem& p, const Operands& operands) {
  const SwitchGuard restore;
  backends::cpu::winograd(true);
  const Results with = operands.all_three(p);
  backends::cpu::winograd(false);
  const Results without = operands.all_three(p);
  std::vector<bool> uses;
  for (std::size_t i = 0; i < with.size(); ++i) {
    uses.push_back(bytes_of(with[i]) != bytes_of(without[i]));
  }
  return uses;
}

void check_problem(Source& source, const Problem& p, MemoryFormat format) {
  const Operands operands(source, p, format);
  expect_like_reference([&] { return operands.all_three(p); }, kTolerance, p.str());
}

TEST(Winograd, RandomProblemsAgreeWithTheReference) {
  Source source(11);
  for (int i = 0; i < problems(200); ++i) {
    const Problem p = {source.integer(4, 5),   source.integer(16, 35),
                       source.integer(16, 35), source.integer(5, 10),
                       source.integer(5, 10),  {source.integer(0, 2), source.integer(0, 2)}};
    check_problem(source, p, i % 2 ? kChannelsLast : kContiguous);
  }
}

// Whole tiles and smaller ones in all combinations.
TEST(Winograd, ImagesOfAllSizesAgreeWithTheReference) {
  Source source(23);
  for (int i = 0; i < problems(18 * 18); ++i) {
    const std::int64_t h = i % 18 + 1, w = (i * 7 + i / 18) % 18 + 1;  // each pair once
    const Problem p = {base::divide_up(24, base::divide_up(h, 4) * base::divide_up(w, 4)), 17, 20,
                       h, w};
    check_problem(source, p, kChannelsLast);
    if (h > 4 && w > 4) {
      EXPECT_EQ(uses_winograd(p, Operands(source, p, kChannelsLast)), std::vector<bool>(3, true))
          << p.str();
    }
  }
}

// Odd and even sizes, so that rows and columns that no window reaches occur.
TEST(Winograd, RandomProblemsOfStride2AgreeWithTheReference) {
  Source source(19);
  for (int i = 0; i < problems(50); ++i) {
    const Problem p = {source.integer(4, 5),
                       source.integer(32, 51),
                       source.integer(32, 51),
                       source.integer(13, 18),
                       source.integer(13, 18),
                       {source.integer(0, 2), source.integer(0, 2)},
                       2};
    check_problem(source, p, kChannelsLast);
  }
}

// More than one block of tiles, of channels and of outputs, with and without remainders.
const Problem kBlocks[] = {
    {4, 17, 300, 8, 9, {0, 0}}, {16, 130, 150, 4, 4}, {20, 64, 64, 8, 8},
    {9, 96, 40, 7, 6},          {17, 520, 240, 4, 4}, {1, 32, 48, 40, 37, {0, 2}},
    {16, 272, 16, 3, 4},        {40, 32, 48, 14, 11}, {18, 130, 150, 7, 10},
    {5, 260, 460, 7, 6},  // slices transform their own weights, as those of 520 channels
};
const Problem kBlocksOfStride2[] = {
    {25, 130, 150, 8, 8, {1, 1}, 2}, {5, 33, 300, 16, 13, {0, 2}, 2},
    {17, 260, 40, 7, 8, {1, 1}, 2},  {1, 32, 48, 64, 59, {2, 1}, 2},
    {16, 260, 460, 7, 8, {1, 1}, 2},
};
/// So many tiles that gradients of weights add up several shares of them, and so many channels that
/// slices may share transformed tiles, of some shares at a time.
const Problem kShares = {32, 128, 128, 32, 32};
/// Of ResNet-18 for CIFAR-10.
const Problem kLayersOfStride2[] = {
    {32, 64, 128, 32, 32, {1, 1}, 2},
    {32, 128, 256, 16, 16, {1, 1}, 2},
    {32, 256, 512, 8, 8, {1, 1}, 2},
};

TEST(Winograd, BlocksAgreeWithTheReference) {
  Source source(12);
  for (const Problem& p : problems(kBlocks)) check_problem(source, p, kChannelsLast);
  for (const Problem& p : problems(kBlocksOfStride2)) check_problem(source, p, kChannelsLast);
  check_problem(source, kBlocksOfStride2[0], kContiguous);
}

TEST(Winograd, LayersOfStride2AgreeWithDirectSummation) {
  Source source(21);
  const SwitchGuard restore;
  for (const Problem& p : problems(kLayersOfStride2)) {
    const Operands operands(source, p, kChannelsLast);
    backends::cpu::winograd(true);
    const Results actual = operands.all_three(p);
    backends::cpu::winograd(false);
    const Results expected = operands.all_three(p);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NE(bytes_of(actual[i]), bytes_of(expected[i])) << p.str();
      expect_close(actual[i], expected[i], kTolerance, p.str());
    }
  }
}

TEST(Winograd, WeightsInAnyLayout) {
  Source source(18);
  for (const Problem& p : {Problem{5, 40, 70, 9, 8}, Problem{5, 40, 70, 15, 16, {1, 1}, 2}}) {
    Operands operands(source, p, kChannelsLast);
    const Tensor dense = operands.weight;
    for (const Tensor& weight : {dense.contiguous(), dense.contiguous(kChannelsLast),
                                 dense.permute({2, 3, 1, 0}).contiguous().permute({3, 2, 0, 1}),
                                 dense.permute({3, 2, 0, 1}).contiguous().permute({2, 3, 1, 0})}) {
      operands.weight = weight;
      expect_like_reference([&] { return operands.all_three(p); }, kTolerance, p.str());
    }
  }
}

// Results beyond the caches are stored in another way.
TEST(Winograd, LargeResultsAgreeWithDirectSummation) {
  Source source(13);
  for (const auto& [channels, side] : {std::pair{64, 32}, {60, 32}, {64, 31}}) {
    const Problem p = {72, 32, channels, side, side};
    const Tensor x = source.values({1, p.c, p.h, p.w}).expand(p.input()).contiguous(kChannelsLast);
    const Tensor weight = source.values({p.oc, p.c, 3, 3});
    const auto result = [&](const Tensor& of) { return conv2d(of, weight, {}, {1, 1}, p.padding); };
    const Tensor actual = result(x), expected = directly([&] { return result(x.narrow(0, 0, 1)); });
    EXPECT_NE(bytes_of(actual.narrow(0, 0, 1)), bytes_of(expected));
    for (std::int64_t image : {0, 35, 71}) {
      expect_close(actual.narrow(0, image, 1), expected, kTolerance, p.str());
    }
  }
}

TEST(Winograd, LargeGradientsOfInputsAtStride2AgreeWithDirectSummation) {
  Source source(20);
  for (std::int64_t channels : {64, 60}) {
    const Problem p = {72, channels, 32, 32, 32, {1, 1}, 2};
    const Tensor grad = source.values({1, p.oc, 16, 16}).expand(p.output());
    const Tensor weight = source.values({p.oc, p.c, 3, 3});
    const auto gradient = [&](const Tensor& of, std::int64_t n) {
      return conv2d_backward_input(of, weight, {n, p.c, p.h, p.w}, p.strides(), p.padding);
    };
    const Tensor actual = gradient(grad.contiguous(kChannelsLast), p.n);
    const Tensor expected =
        directly([&] { return gradient(grad.narrow(0, 0, 1).contiguous(), 1); });
    EXPECT_NE(bytes_of(actual.narrow(0, 0, 1)), bytes_of(expected));
    for (std::int64_t image : {0, 35, 71}) {
      expect_close(actual.narrow(0, image, 1), expected, kTolerance, p.str());
    }
  }
}

/// As promised in backends.h: times the largest magnitudes and the number of products.
constexpr double kStatedBound = 8e-5, kStatedBoundOfWeights = 2e-5;

double largest(const Tensor& t) { return amax(abs(t)).item<double>(); }

/// Numbers whose rounding errors add up in different ways: scattered, of one sign, a few of them
/// far larger than the others, exact, all alike, and signs that are alike in all channels, which
/// add up most.
std::vector<Tensor> numbers(Source& source, IntList sizes) {
  const Tensor x = source.values(sizes, kFloat32, kChannelsLast);
  const Tensor alike = 0.7f * sign(x.narrow(0, 0, 1).narrow(1, 0, 1)).expand(sizes);
  return {x,
          abs(x),
          where(abs(x) > 2.5, x * 1e4, x),
          sign(x),
          full_like(x, -0.6f),
          alike.contiguous(kChannelsLast)};
}

TEST(Winograd, ErrorsStayBelowTheStatedBound) {
  Source source(22);
  constexpr std::int64_t kChannels[] = {32, 160, 700};
  for (std::int64_t stride : {1, 2}) {
    for (std::int64_t channels : problems(kChannels)) {
      const Problem p = {4, channels, 32, 15, 14, {1, 1}, stride};
      const Problem wide = {4, 32, channels, 15, 14, {1, 1}, stride};
      const auto x = numbers(source, p.input()), w = numbers(source, {p.oc, p.c, 3, 3});
      const auto grad = numbers(source, wide.output());
      const auto v = numbers(source, {wide.oc, wide.c, 3, 3});
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto results = [&](DType dtype) -> Results {
          const Tensor g = grad[i].to(dtype), y = x[i].to(dtype);
          return {conv2d(y, w[i].to(dtype), {}, p.strides(), p.padding),
                  conv2d_backward_input(g, v[i].to(dtype), wide.input(), p.strides(), p.padding)};
        };
        const Results actual = results(kFloat32), exact = results(kFloat64);
        const double bound = kStatedBound * 9 * static_cast<double>(channels);
        EXPECT_LT(largest(actual[0] - exact[0]), bound * largest(x[i]) * largest(w[i])) << p.str();
        EXPECT_LT(largest(actual[1] - exact[1]), bound * largest(grad[i]) * largest(v[i]))
            << p.str();
      }
    }
  }
}

// The worst that is known: with these signs tiles become largest, and where all channels, or all
// tiles, are alike, every addition rounds in the same direction.
TEST(Winograd, SignsOfPeriodFourStayBelowTheStatedBound) {
  const auto signs = [](std::int64_t side) {
    const Tensor line = tensor({1., -1., -1., 1.}).repeat({10}).narrow(0, 0, side);
    return outer(line, line).view({1, 1, side, side});
  };
  Source source(31);
  const auto scales = [&](std::int64_t n) {
    return source.values({n, 1, 1, 1}, kFloat32, kContiguous).abs() + 0.5;
  };
  for (std::int64_t channels : {700, 4096}) {
    const Tensor s = scales(64), t = scales(32);
    const Tensor x = (signs(6).to(kFloat32) * s), w = t.expand({32, 1, 3, 3});
    const Tensor actual = conv2d(x.expand({64, channels, 6, 6}).contiguous(kChannelsLast),
                                 w.expand({32, channels, 3, 3}).contiguous(kChannelsLast));
    const Tensor error = actual - conv2d(x.to(kFloat64), w.to(kFloat64)) * channels;
    EXPECT_LT(largest(error / (s * t.view({1, 32, 1, 1}))), kStatedBound * 9 * channels);
  }
  constexpr float kScales[][2] = {{0x1.0c3adep-1f, 0x1.10e338p-1f},
                                  {0x1.8f064cp-1f, 0x1.6e4244p-1f}};
  for (const auto& [s, t] : kScales) {
    const Tensor x = (signs(34).to(kFloat32) * s).expand({256, 16, 34, 34});
    const Tensor grad = full({256, 16, 32, 32}, t).contiguous(kChannelsLast);
    const Tensor actual = conv2d_backward_weight(grad, x.contiguous(kChannelsLast), {3, 3});
    // Every line of the image has as many of each sign: the sums are 0.
    EXPECT_LT(largest(actual), kStatedBoundOfWeights * s * t * 256 * 32 * 32);
  }
}

// Enough blocks of channels and outputs that one share of all tiles would do. Without padding,
// equal numbers give sums that are known.
TEST(Winograd, LongGradientsOfWeightsStayBelowTheStatedBound) {
  constexpr std::int64_t kImages = 16, kSide = 64;
  const Tensor x = full({kImages, 65, 129, 129}, 0.3f).contiguous(kChannelsLast);
  const Tensor grad = full({kImages, 129, kSide, kSide}, 0.3f).contiguous(kChannelsLast);
  const Tensor gradient = conv2d_backward_weight(grad, x, {3, 3}, {2, 2}, {0, 0});
  const double exact = std::pow(static_cast<double>(0.3f), 2) * kImages * kSide * kSide;
  EXPECT_LT(largest(gradient.to(kFloat64) - exact), kStatedBoundOfWeights * exact);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep books of memory
TEST(Winograd, GradientsOfWeightsOfManyTilesHaveNoPageFaults) {
  // The C library's, in a process that has not freed anything large yet.
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  Source source(41);
  const Problem p{128, 32, 32, 32, 32, {1, 1}, 2};
  const Operands of(source, p, kChannelsLast);
  const auto call = [&] { conv2d_backward_weight(of.grad, of.x, {3, 3}, p.strides(), p.padding); };
  for (int i = 0; i < 3; ++i) call();
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < 4; ++i) call();
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_minflt - before.ru_minflt, 20);
}
#endif

TEST(Winograd, LeavesSumsTooLongForTheBoundToOthers) {
  constexpr const char* kTooLong = "so many channels that errors could exceed the stated bound";
  for (const std::int64_t stride : {1, 2}) {
    const auto refusal = [&](OpId id, const Tensor& images, const Tensor& w, const void* attrs) {
      const Tensor* inputs[] = {&images, &w};
      Tensor out;
      const KernelArgs args{{op(id), inputs, 2, attrs}, &out, 1};
      return implementations(id, DeviceType::cpu)[stride - 1].refuse(args);
    };
    const auto forward = [&](const Problem& p) {
      const ops::conv2d_attrs attrs{p.strides(), p.padding, {1, 1}, 1};
      return refusal(OpId::conv2d, empty(p.input()), empty({p.oc, p.c, 3, 3}), &attrs);
    };
    const auto backward = [&](const Problem& p) {
      const ops::conv2d_backward_input_attrs attrs{p.input(), p.strides(), p.padding, {1, 1}, 1};
      return refusal(OpId::conv2d_backward_input, empty(p.output()), empty({p.oc, p.c, 3, 3}),
                     &attrs);
    };
    // A convolution adds up over its channels, the gradient of the input over the outputs.
    const auto problem = [&](std::int64_t c, std::int64_t oc) {
      return Problem{1, c, oc, 16 * stride, 16 * stride, {1, 1}, stride};
    };
    EXPECT_EQ(forward(problem(4096, 32)), nullptr);
    EXPECT_STREQ(forward(problem(4097, 32)), kTooLong);
    EXPECT_EQ(forward(problem(32, 4097)), nullptr);
    EXPECT_EQ(backward(problem(32, 4096)), nullptr);
    EXPECT_STREQ(backward(problem(32, 4097)), kTooLong);
    EXPECT_EQ(backward(problem(4097, 32)), nullptr);
  }
}

TEST(Winograd, SameBitsOnAllThreads) {
  Source source(14);
  const auto check = [&](const Problem& p) {
    const Operands operands(source, p, kChannelsLast);
    // With more threads than blocks of outputs, several share one, where slices have own weights.
    expect_same_bits_on_all_threads([&] { return operands.all_three(p); }, p.str(), 24);
  };
  for (const Problem& p : kBlocks) check(p);
  for (const Problem& p : kBlocksOfStride2) check(p);
  check(kShares);
}

TEST(Winograd, SameBitsWithAnyCaches) {
  Source source(15);
  const auto check = [&](const Problem& p) {
    const Operands operands(source, p, kChannelsLast);
    expect_same_bits_with_any_caches([&] { return operands.all_three(p); }, p.str());
  };
  for (const Problem& p : kBlocks) check(p);
  for (const Problem& p : kBlocksOfStride2) check(p);
  check(kShares);
}

TEST(Winograd, ComesFirstAndCanBeSwitchedOff) {
  for (OpId op : {OpId::conv2d, OpId::conv2d_backward_input, OpId::conv2d_backward_weight}) {
    const auto& list = implementations(op, DeviceType::cpu);
    EXPECT_STREQ(list[0].name, "Winograd F(4x4,3x3)");
    EXPECT_STREQ(list[1].name, "Winograd F(4x4,2x2) at stride 2");
  }
  Source source(15);
  const Problem p = {10, 32, 32, 8, 8};
  const Operands operands(source, p, kChannelsLast);
  EXPECT_EQ(uses_winograd(p, operands), std::vector<bool>(3, true));
  for (const Problem& strided : kBlocksOfStride2) {
    EXPECT_EQ(uses_winograd(strided, Operands(source, strided, kChannelsLast)),
              std::vector<bool>(3, true))
        << strided.str();
  }
  const SwitchGuard restore;
  backends::cpu::winograd(false);
  EXPECT_FALSE(backends::cpu::winograd());
  expect_like_reference([&] { return operands.all_three(p); }, kTolerance, p.str());
}

TEST(Winograd, AVariableSwitchesItOff) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not asked yet
  const auto convolve = [](const char* value) {
    setenv("FACULA_WINOGRAD", value, 1);
    setenv("FACULA_VERBOSE", "1", 1);
    const Tensor x = zeros({1, 16, 16, 16}).contiguous(kChannelsLast);
    conv2d(x, zeros({16, 16, 3, 3}), {}, {1, 1}, {1, 1});
    std::exit(0);
  };
  EXPECT_EXIT(convolve("1"), testing::ExitedWithCode(0), "conv2d .*[}] Winograd F[(]4x4,3x3[)]: ");
  EXPECT_EXIT(convolve("0"), testing::ExitedWithCode(0),
              "refused by Winograd F[(]4x4,3x3[)]: switched off");
}

// Few channels, few tiles, tiles that are mostly outside, expensive conversions.
TEST(Winograd, LeavesOtherProblemsToOthers) {
  Source source(16);
  const Problem p = {20, 32, 32, 32, 32};
  EXPECT_EQ(uses_winograd(p, Operands(source, p, kChannelsLast)), std::vector<bool>(3, true));
  EXPECT_EQ(uses_winograd(p, Operands(source, p, kContiguous)), std::vector<bool>(3, true));
  const Problem fewer = {24, 24, 24, 32, 32};
  EXPECT_EQ(uses_winograd(fewer, Operands(source, fewer, kContiguous)),
            std::vector<bool>(3, false));
  const Problem strided = {20, 32, 64, 16, 16, {1, 1}, 2};
  EXPECT_EQ(uses_winograd(strided, Operands(source, strided, kContiguous)),
            std::vector<bool>(3, false));
  for (const Problem& small :
       {Problem{20, 3, 64, 8, 8}, Problem{20, 64, 8, 8, 8}, Problem{2, 64, 64, 4, 4},
        Problem{40, 32, 32, 2, 2}, Problem{40, 32, 32, 2, 9}, Problem{20, 64, 24, 8, 8, {1, 1}, 2},
        Problem{4, 64, 64, 8, 8, {1, 1}, 2}, Problem{40, 64, 64, 10, 10, {1, 1}, 2}}) {
    const Operands operands(source, small, kChannelsLast);
    EXPECT_EQ(uses_winograd(small, operands), std::vector<bool>(3, false)) << small.str();
  }
}

// A single block of tiles: outputs are shared out.
TEST(Winograd, OfFewTilesAgreesWithTheReference) {
  Source source(18);
  for (const Problem& p : {Problem{1, 64, 256, 16, 16}, Problem{2, 300, 40, 8, 8},
                           Problem{8, 40, 130, 4, 4}, Problem{1, 96, 600, 9, 13}}) {
    const Operands operands(source, p, kChannelsLast);
    const std::vector<bool> uses = uses_winograd(p, operands);
    EXPECT_TRUE(uses[0] && uses[1]) << p.str();
    expect_like_reference([&] { return operands.all_three(p); }, kTolerance, p.str());
  }
}

TEST(Winograd, LeavesStridesDilationsGroupsAndOtherTypesToOthers) {
  Source source(17);
  const SwitchGuard restore;
  const Tensor x = source.values({8, 32, 16, 16}, kFloat32, kChannelsLast);
  const Tensor weight = source.values({32, 32, 3, 3}), grouped = source.values({32, 16, 3, 3});
  const auto same_either_way = [&](const std::function<Tensor()>& compute) {
    backends::cpu::winograd(true);
    const Tensor with = compute();
    backends::cpu::winograd(false);
    return bytes_of(with) == bytes_of(compute());
  };
  EXPECT_FALSE(same_either_way([&] { return conv2d(x, weight); }));
  EXPECT_TRUE(same_either_way([&] { return conv2d(x, weight, {}, {3, 3}); }));
  EXPECT_TRUE(same_either_way([&] { return conv2d(x, weight, {}, {2, 1}); }));
  EXPECT_TRUE(same_either_way([&] { return conv2d(x, weight, {}, {1, 1}, {0, 0}, {2, 2}); }));
  EXPECT_TRUE(same_either_way([&] { return conv2d(x, grouped, {}, {1, 1}, {0, 0}, {1, 1}, 2); }));
  EXPECT_TRUE(same_either_way([&] { return conv2d(x, weight, {}, {1, 1}, {3, 3}); }));
  EXPECT_TRUE(same_either_way([&] { return conv2d(x.to(kFloat64), weight.to(kFloat64)); }));
  const Tensor narrow = source.values({32, 32, 3, 2});
  EXPECT_TRUE(same_either_way([&] { return conv2d(x, narrow); }));
}

}  // namespace
}  // namespace facula
