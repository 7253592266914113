// conv2d_backward_input_fused has the bits of the ops that it stands for, in Winograd's output
// transforms and op by op.
#include <limits>

#include "tests/backends/kernel_check.h"

namespace facula {
namespace {

struct Problem {
  std::int64_t n, c, oc, size, kernel, stride = 1;
  MemoryFormat format = kChannelsLast;

  std::string str() const {
    return fmt::format("gradient of [{}, {}, {}, {}] from {} outputs, kernel {} stride {}{}", n, c,
                       size, size, oc, kernel, stride,
                       format == kChannelsLast ? " channels_last" : "");
  }
};

const Problem kProblems[] = {
    {5, 37, 16, 9, 3},       // Winograd with tails
    {16, 200, 40, 8, 3},     // more than one block of channels
    {8, 64, 64, 48, 3},      // past the caches
    {9, 70, 33, 17, 3, 2},   // in four parts, each of every second pixel
    {16, 32, 32, 48, 3, 2},  // past the caches
    {8, 24, 48, 10, 1},      // others
    {8, 24, 48, 10, 1, 2},
    {4, 3, 8, 12, 5},
    {4, 32, 32, 12, 3, 1, kContiguous},
    {4, 3, 8, 12, 3, 1, kContiguous},
};

class Operands {
 public:
  Operands(Source& source, const Problem& problem)
      : p(problem),
        weight(source.values({p.oc, p.c, p.kernel, p.kernel})),
        residual(source.values(size(), kFloat32, p.format)),
        rectified(relu(source.values(size(), kFloat32, p.format))) {
    const std::int64_t out = (p.size + 2 * (p.kernel / 2) - p.kernel) / p.stride + 1;
    grad = source.values({p.n, p.oc, out, out}, kFloat32, p.format);
  }

  Tensor fused(bool add, bool rectify) const {
    return conv2d_backward_input_fused(grad, weight, add ? residual : Tensor(),
                                       rectify ? rectified : Tensor(), size(), {p.stride},
                                       {p.kernel / 2});
  }
  Tensor parts(bool add, bool rectify) const {
    Tensor x = conv2d_backward_input(grad, weight, size(), {p.stride}, {p.kernel / 2});
    if (add) x = x + residual;
    return rectify ? relu_backward(x, rectified) : x;
  }

  const Problem p;
  Tensor weight, residual, rectified, grad;

 private:
  Dims size() const { return {p.n, p.c, p.size, p.size}; }
};

TEST(FusedInputGradient, HasTheBitsOfItsParts) {
  Source source(41);
  for (const Problem& p : kProblems) {
    const Operands operands(source, p);
    for (int without = 0; without < problems(4); ++without) {
      const bool add = !(without & 1), rectify = !(without & 2);
      const Tensor fused = operands.fused(add, rectify), parts = operands.parts(add, rectify);
      EXPECT_TRUE(bytes_of(fused) == bytes_of(parts))
          << p.str() << (add ? " add" : "") << (rectify ? " rectify" : "");
      EXPECT_TRUE(fused.strides() == parts.strides()) << p.str();
    }
  }
}

TEST(FusedInputGradient, AgreesWithTheReference) {
  Source source(42);
  for (const Problem& p : problems(kProblems)) {
    const Operands operands(source, p);
    expect_like_reference([&] { return Results{operands.fused(true, true)}; }, 1e-5, p.str());
  }
}

TEST(FusedInputGradient, IsTheSameOnAnyNumberOfThreads) {
  Source source(43);
  for (const Problem& p : kProblems) {
    const Operands operands(source, p);
    expect_same_bits_on_all_threads([&] { return Results{operands.fused(true, true)}; }, p.str());
  }
}

// As relu_backward does: a NaN in a forward pass must not become a gradient of 0.
TEST(FusedInputGradient, PassesWhereReluGaveNaN) {
  Source source(44);
  for (const Problem& p : kProblems) {
    const Operands operands(source, p);
    operands.rectified.fill_(std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(bytes_of(operands.fused(true, true)) == bytes_of(operands.parts(true, false)))
        << p.str();
  }
}

}  // namespace
}  // namespace facula
